"""Quality: how well a partition suits a graph."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.graph import GraphLike, as_graph
from gpnn.partition.candidates import as_nodes, training_nodes

if TYPE_CHECKING:
    from gpnn.partition.partition import Partition


@dataclass(frozen=True)
class Quality:
    """What a partition costs: metrics of the whole, then one entry per part; it prints as a table.

    Attributes:
        num_parts: number of parts K.
        edge_cut: fraction of the edges that run between parts.
        balance: nodes of the largest part over the mean.
        edge_balance: edge ends (in-degree plus out-degree) of the heaviest part over the mean.
        num_cut_edges: number of edges between parts.
        num_cut_nodes: number of nodes that touch one of these.
        num_empty: number of parts without a node.
        sizes: nodes of each part.
        edge_ends: edge ends of each part.
        halo: rows that each part needs of others: distinct nodes outside that send an edge in.
        conductance: cut edges at each part over the smaller of its edge ends and the others'.
        train_labels: training nodes of each part, or None where there are none to count.
    """

    num_parts: int
    edge_cut: float
    balance: float
    edge_balance: float
    num_cut_edges: int
    num_cut_nodes: int
    num_empty: int
    sizes: tuple[int, ...]
    edge_ends: tuple[int, ...]
    halo: tuple[int, ...]
    conductance: tuple[float, ...]
    train_labels: tuple[int, ...] | None

    def as_dict(self) -> dict[str, Any]:
        """Every metric by name, those per part as lists, ready for JSON."""
        metrics = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in metrics.items()}

    def summary(self) -> dict[str, Any]:
        """One number per name; metrics per part by their largest (labels also by their smallest)."""
        labels = self.train_labels
        return {
            "parts": self.num_parts,
            "empty parts": self.num_empty,
            "edge cut": self.edge_cut,
            "cut edges": self.num_cut_edges,
            "cut nodes": self.num_cut_nodes,
            "balance of nodes": self.balance,
            "balance of edges": self.edge_balance,
            "halo rows, largest": max(self.halo),
            "halo rows, all": sum(self.halo),
            "conductance, largest": max(self.conductance),
            "training labels, fewest": None if labels is None else min(labels),
            "training labels, most": None if labels is None else max(labels),
        }

    def __str__(self) -> str:
        lines = [f"{name:<25}{_show(value):>14}" for name, value in self.summary().items()]
        columns = [self.sizes, self.edge_ends, self.halo, self.conductance, self.train_labels or ()]
        lines += ["", _line(["part", "nodes", "edge ends", "halo", "conductance", "labels"])]
        for part in range(self.num_parts):
            lines.append(_line([str(part), *(_show(column[part]) if column else "-" for column in columns)]))
        return "\n".join(lines)


def measure(partition: Partition, graph: GraphLike, train_mask: Tensor | None = None) -> Quality:
    """The quality of `partition` on `graph`; in time and memory one pass over its out-edges."""
    from gpnn.partition.kernels import tally

    structure = as_graph(graph)
    if structure.num_nodes != partition.num_nodes:
        raise ValueError(f"The graph must have the partition's {partition.num_nodes} nodes. Got {structure.num_nodes}.")
    train_nodes = training_nodes(graph) if train_mask is None else as_nodes(train_mask)
    rows = structure.out_edges(with_edge=False)
    labels, k = partition.labels.numpy(), partition.num_parts
    ends, crossing, halo, num_cut_edges, num_cut_nodes = tally(rows.ptr, rows.index, labels, k)
    smaller = np.minimum(ends, ends.sum() - ends)
    train = None if train_nodes is None else torch.bincount(partition.labels[train_nodes], minlength=k)
    return Quality(
        num_parts=k,
        edge_cut=float(num_cut_edges / max(structure.num_edges, 1)),
        balance=largest_over_mean(partition.sizes.numpy()),
        edge_balance=largest_over_mean(ends),
        num_cut_edges=int(num_cut_edges),
        num_cut_nodes=int(num_cut_nodes),
        num_empty=int((partition.sizes == 0).sum()),
        sizes=tuple(partition.sizes.tolist()),
        edge_ends=tuple(ends.tolist()),
        halo=tuple(halo.tolist()),
        conductance=tuple((crossing / np.maximum(smaller, 1)).tolist()),
        train_labels=None if train is None else tuple(train.tolist()),
    )


def largest_over_mean(values: np.ndarray) -> float:
    """The largest of some counts over their mean; 1 where all are zero."""
    total = int(values.sum())
    return float(values.max() * len(values) / total) if total else 1.0


def _line(cells: list[str]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, (6, 12, 14, 12, 13, 9)))


def _show(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
