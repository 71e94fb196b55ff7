"""Partition: the nodes of a graph divided into disjoint subgraphs; Quality: how well that suits the graph."""

from __future__ import annotations

import re
import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_count
from gpnn.csr import compress, pointers
from gpnn.graph import GraphLike, as_graph
from gpnn.graph.edges import check_ids
from gpnn.storage.atomic import replace_file
from gpnn.storage.tensors import read_tensors, write_tensors
from gpnn.text import bars_html

MOST_BARS = 100  # subgraphs that a notebook shows
MOST_EMPTY = 1 << 20  # parts that a file may declare beyond its nodes: a declared number costs memory
_METIS_NAME = re.compile(r"\.part\.(\d+)$")


@dataclass(frozen=True, eq=False)
class Partition:
    """Which of `num_parts` subgraphs each node belongs to; it checks itself when it is made.

    A part may be empty: `ptr` then repeats. Flood fill and `refined` never return one; the user's own labels and
    `metis` may.

    Attributes:
        labels: part of each node, int64, `[N]`.
        num_parts: number of parts K.
        arrangement: the nodes grouped by part, neighbours close to each other, `[N]`; a plan's rows follow it, so that
            what a row reads is likely in cache. None: ascending within a part.

    Raises:
        ValueError: naming the constraint and the offending value.

    >>> part = Partition([1, 0, 1], num_parts=2)
    >>> part.order.tolist(), part.ptr.tolist()
    ([1, 0, 2], [0, 1, 3])
    """

    labels: Tensor
    num_parts: int
    arrangement: Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _check_labels(self.labels))
        object.__setattr__(self, "num_parts", check_count("num_parts", self.num_parts))
        check_ids("`labels` must lie", self.labels, self.num_parts)
        if self.arrangement is not None:
            _check_arrangement(self.arrangement, self.labels)

    def __repr__(self) -> str:
        return f"Partition(num_nodes={self.num_nodes}, num_parts={self.num_parts})"

    def _repr_html_(self) -> str:
        sizes = self.sizes.sort(descending=True).values[:MOST_BARS].tolist()
        return f"{self!r}<br>" + bars_html(sizes, "nodes of the largest subgraphs")

    @property
    def num_nodes(self) -> int:
        return self.labels.numel()

    @cached_property
    def sizes(self) -> Tensor:
        """Number of nodes in each part, `[K]`."""
        return torch.bincount(self.labels, minlength=self.num_parts)

    @cached_property
    def ptr(self) -> Tensor:
        """Part p owns `order[ptr[p]:ptr[p + 1]]`, int64, `[K + 1]`."""
        return pointers(self.sizes)

    @cached_property
    def order(self) -> Tensor:
        """The nodes grouped by part, as they are arranged within it, int64, `[N]`."""
        if self.arrangement is not None:
            return self.arrangement.long()
        labels = self.labels.numpy()
        nodes = torch.arange(self.num_nodes).numpy()
        return torch.from_numpy(compress(labels, nodes, self.num_parts, with_edge=False).index).long()

    def quality(self, graph: GraphLike, train_mask: Tensor | None = None) -> Quality:
        """How well the partition suits `graph`: cut, balance, halo, conductance, training labels.

        Args:
            graph: the graph that was partitioned.
            train_mask: bool `[N]`; without it a `Data`'s own `train_mask` or labels are used.
        """
        return measure(self, graph, train_mask)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the partition to `path`: safetensors, or METIS's text when the name ends in `.part.K`.

        A kill leaves the old file or the new one.

        Raises:
            ValueError: when a `.part.K` name states another K than the partition has, or the name ends otherwise.
            OSError: when the disk is full or the folder cannot be written.
        """
        path = Path(path)
        if named := _METIS_NAME.search(path.name):
            if named[1] != str(self.num_parts):
                raise ValueError(f"`{path.name}` must end in .part.{self.num_parts}. Got .part.{named[1]}.")
            replace_file(path, lambda partial: np.savetxt(partial, self.labels.numpy(), fmt="%d"))
        elif path.suffix != ".safetensors":
            raise ValueError(f"A partition file must end in .safetensors or .part.{self.num_parts}. Got {path.name!r}.")
        else:
            tensors = {"labels": self.labels.to(torch.int32)}
            if self.arrangement is not None:
                tensors["arrangement"] = self.arrangement
            write_tensors(path, tensors, {"num_parts": self.num_parts})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Partition:
        """Read a partition that :meth:`save` or METIS (one part per line, from 0) wrote; nothing is unpickled.

        Raises:
            ValueError: when the file is neither.
        """
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"`path` must name a partition file. Got {str(path)!r}, which is not a file.")
        if named := _METIS_NAME.search(path.name):
            labels, num_parts, arrangement = _read_metis(path), int(named[1][:19]), None
        else:
            labels, num_parts, arrangement = _read_saved(path)
        if num_parts > len(labels) + MOST_EMPTY:
            raise ValueError(f"{path.name} must state a number of parts near its {len(labels)} nodes. Got {num_parts}.")
        return cls(labels, num_parts, arrangement)


def _check_labels(labels: Any) -> Tensor:
    labels = torch.as_tensor(labels).detach().cpu()
    if labels.dim() != 1 or labels.numel() == 0:
        raise ValueError(f"`labels` must have shape [N] with N at least 1. Got {list(labels.shape)}.")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"`labels` must hold integers. Got {str(labels.dtype).removeprefix('torch.')}.")
    return labels.long().contiguous()


def _check_arrangement(arrangement: Tensor, labels: Tensor) -> None:
    if arrangement.shape != labels.shape or arrangement.is_floating_point():
        raise ValueError(f"`arrangement` must hold {len(labels)} nodes. Got {list(arrangement.shape)}.")
    nodes = arrangement.long()
    if int(nodes.min()) < 0 or int(nodes.max()) >= len(labels) or bool((nodes.bincount() != 1).any()):
        raise ValueError("`arrangement` must hold every node once. Got one twice, or one that is not there.")
    if bool((labels[nodes].diff() < 0).any()):
        raise ValueError("`arrangement` must group the nodes by part. Got a part after a later one.")


def _read_metis(path: Path) -> torch.Tensor:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns when it stops before the end
            labels = np.fromstring(path.read_text(), dtype=np.int64, sep="\n")
    except (DeprecationWarning, ValueError, UnicodeDecodeError):
        raise ValueError(f"{path.name} must hold one integer per line. Got something else.") from None
    return torch.from_numpy(labels)


def _read_saved(path: Path) -> tuple[Tensor, int, Tensor | None]:
    tensors, description = read_tensors(path, "a saved partition or end in .part.K")
    num_parts = description.get("num_parts")
    if "labels" not in tensors or type(num_parts) is not int:
        raise ValueError(f"{path.name} must hold `labels` and their `num_parts`. Got neither or one.")
    return tensors["labels"], num_parts, tensors.get("arrangement")


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


def training_nodes(graph: Any) -> Tensor | None:
    """The labelled nodes of `graph`, or None: its `train_mask`, else where `y` is not -1.

    The masks of a `HeteroData` are concatenated in the order of its node types; a node type without a mask has
    no training nodes.
    """
    if hasattr(graph, "node_types"):
        masks = [store.get("train_mask", torch.zeros(store.num_nodes, dtype=torch.bool)) for store in graph.node_stores]
        mask: Tensor | None = torch.cat(masks)
    else:
        mask = getattr(graph, "train_mask", None)
        labels = getattr(graph, "y", None)
        if mask is None and labels is not None and labels.dim() == 1 and not labels.is_floating_point():
            mask = labels >= 0 if labels.numel() == graph.num_nodes else None
    return None if mask is None or not bool(mask.any()) else as_nodes(mask)


def as_nodes(mask: Tensor) -> Tensor:
    """The ids of the nodes that a bool mask selects."""
    if mask.dtype != torch.bool or mask.dim() != 1:
        raise ValueError(f"`train_mask` must be a bool mask [N]. Got {mask.dtype}, {list(mask.shape)}.")
    return mask.detach().cpu().nonzero().flatten()
