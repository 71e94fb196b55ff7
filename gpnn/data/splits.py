"""Splits of the nodes, and GraphFacts: what a graph is like, by its features, edges and training labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import choose_scale, row_sums
from gpnn.data.labels import are_numbers, labelled_nodes
from gpnn.graph import Graph, as_graph

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Split(NamedTuple):
    """Which nodes train, validate and test: three boolean masks that do not overlap, `[N]` each."""

    train_mask: Tensor
    val_mask: Tensor
    test_mask: Tensor


MASKS = Split._fields


def split_per_class(y: Tensor, *, per_class: int, num_val: int, num_test: int | None = None, seed: int = 0) -> Split:
    """A split with `per_class` training nodes of every class; the others are drawn from what remains.

    Args:
        y: class of each node, -1 where unknown; such nodes are in no mask, `[N]`.
        per_class: training nodes of each class.
        num_val: validation nodes.
        num_test: test nodes; None: all that remain.

    Raises:
        ValueError: when a class or the rest is too small.

    >>> split = split_per_class(torch.tensor([0, 1, 0, 1, -1]), per_class=1, num_val=1)
    >>> [int(mask.sum()) for mask in split]
    [2, 1, 1]
    """
    labels, order, rank = _draw(y, seed)
    _check_classes(labels[order], per_class)
    rest = order[rank >= per_class]
    needed = num_val + (num_test or 0)
    if needed > len(rest):
        raise ValueError(f"`num_val` and `num_test` must be at most the {len(rest)} nodes left. Got {needed}.")
    end = len(rest) if num_test is None else needed
    return split_nodes(len(labels), order[rank < per_class], rest[:num_val], rest[num_val:end])


def split_fractions(y: Tensor, *, train: float = 0.6, val: float = 0.2, seed: int = 0) -> Split:
    """A split with the given shares of each class for training and validation, the rest for testing.

    Every class has at least one training node.

    Args:
        y: class of each node, -1 where unknown; such nodes are in no mask, `[N]`.
        train: share of each class that trains.
        val: share of each class that validates.
    """
    if not (0 < train <= 1 and val >= 0 and train + val <= 1):
        raise ValueError(f"`train` and `val` must be shares that sum to at most 1. Got {train} and {val}.")
    labels, order, rank = _draw(y, seed)
    size = np.bincount(labels[order])[labels[order]] if len(order) else rank
    num_train = np.maximum(1, np.round(train * size))
    num_val = np.round(val * size)
    trains, validates = rank < num_train, (rank >= num_train) & (rank < num_train + num_val)
    return split_nodes(len(labels), order[trains], order[validates], order[~trains & ~validates])


def split_nodes(num_nodes: int, train: Any, val: Any, test: Any) -> Split:
    """The split of the given nodes, arrays or tensors of node ids."""
    return Split(*(node_mask(nodes, num_nodes) for nodes in (train, val, test)))


def node_mask(nodes: Any, num_nodes: int) -> Tensor:
    """True for the given nodes, an array or a tensor of node ids; bool `[N]`.

    >>> node_mask(np.array([0, 2]), 3).tolist()
    [True, False, True]
    """
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[torch.as_tensor(nodes)] = True
    return mask


def _draw(y: Tensor, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The labels, the labelled nodes in random order, and how many of each one's class are before it."""
    labels = y.numpy()
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[labels[order] >= 0]
    return labels, order, _rank_in_class(labels[order])


def _rank_in_class(labels: np.ndarray) -> np.ndarray:
    """How many earlier entries have the same label, `[n]`."""
    order = np.argsort(labels, kind="stable")
    start = np.searchsorted(labels[order], labels[order])
    rank = np.empty(len(labels), np.int64)
    rank[order] = np.arange(len(labels)) - start
    return rank


def _check_classes(labels: np.ndarray, per_class: int) -> None:
    counts = np.bincount(labels) if len(labels) else np.zeros(1, np.int64)
    present = counts[counts > 0]
    if not len(present) or present.min() < per_class:
        least = int(present.min()) if len(present) else 0
        kind = int(np.flatnonzero(counts == least)[0])
        raise ValueError(f"`per_class` must be at most the {least} labelled nodes of class {kind}. Got {per_class}.")


def strata(y: Tensor) -> Tensor:
    """What splits are drawn by, `[N]`, -1 where a node is unlabelled: the class, or 0 for labels and numbers.

    >>> strata(torch.tensor([0.5, float("nan")])).tolist()
    [0, -1]
    """
    return y if has_one_class(y) else labelled_nodes(y).long() - 1


def draw_split(data: Data, seed: int) -> str:
    """Set the masks of `data`, drawn class by class where a node has one; return a note on the split.

    Args:
        data: with labels `y`.
    """
    split = split_fractions(strata(data.y), seed=seed)
    for name, mask in split._asdict().items():
        data[name] = mask
    counts = [int(mask.sum()) for mask in split]
    each = "" if are_numbers(data.y) or data.y.dim() == 2 else " of each class"
    shares = f"split drawn with seed {seed}, 60/20/20 %{each}"
    return f"{shares}: {counts[0]} nodes train, {counts[1]} validate, {counts[2]} test"


VARIED = 0.4  # deviation of rows' sums, as a share of their mean, from which on a row's length may tell something
LEAST_EDGES = 40  # between training nodes, that tell whether neighbours are alike: of fewer the share is chance


@dataclass(frozen=True)
class GraphFacts:
    """The facts that choose recipes.

    Attributes:
        num_nodes: N.
        num_columns: columns of the features, 0 without.
        num_labels: labelled training nodes.
        labels_per_class: labels that they have, by class; all of them where numbers are predicted.
        num_validation: labelled validation nodes.
        assortativity: how far the homophily of the edges between training nodes is above that of classes at random
            among the same ends, 1 at most and 0 for chance (adjusted homophily, Platonov et al. 2023); None where there
            are too few such edges to tell, numbers are predicted, or nodes have several labels.
        rows_differ: whether scaling each row to sum one takes away what its length may tell: no feature is negative,
            and the standard deviation of the rows' sums is more than 0.4 of their mean.
        can_self_train: whether a node has one class, and all nodes are in one process.
    """

    num_nodes: int
    num_columns: int
    num_labels: int
    labels_per_class: float
    num_validation: int
    assortativity: float | None = None
    rows_differ: bool = False
    can_self_train: bool = False

    @classmethod
    def of(cls, data: Data) -> GraphFacts:
        """The facts of a checked `Data` with labels; labels of validation and test nodes are not read."""
        x, y, graph = data.get("x"), data.y, as_graph(data)
        train = split_mask(data, "train")
        width, num_labels = 0 if x is None else x.shape[1], int(train.sum())
        one_class = has_one_class(y)
        classes = torch.unique(y[train]).numel() if one_class else 1 if are_numbers(y) else y.shape[1]
        return cls(
            num_nodes=graph.num_nodes,
            num_columns=width,
            num_labels=num_labels,
            labels_per_class=count_labels(y, train) / max(1, classes),
            num_validation=int(split_mask(data, "val").sum()),
            assortativity=assortativity(y, graph, train) if one_class else None,
            rows_differ=_rows_differ(x),
            can_self_train=one_class,
        )


def split_mask(data: Data, split: str) -> Tensor:
    """Whether each node is a labelled node of a split, bool `[N]`; a mask that is missing is empty."""
    known, mask = labelled_nodes(data.y), data.get(f"{split}_mask")
    return torch.zeros_like(known) if mask is None else known & mask


def has_one_class(y: Tensor) -> bool:
    """Whether labels are one class per node, rather than several labels, or numbers."""
    return y.dim() == 1 and not are_numbers(y)


def count_labels(y: Tensor, known: Tensor) -> int:
    """The labels of the known nodes: one each, or as many as a node has of several.

    >>> count_labels(torch.tensor([[1, 1, 0], [0, 0, 0]]), torch.tensor([True, True]))
    2
    """
    return int(known.sum() if y.dim() == 1 else (y[known] > 0).sum())


def homophily(y: Tensor, graph: Graph, known: Tensor) -> float | None:
    """The share of the edges between two known nodes whose ends share a class (any of their labels); None without.

    >>> homophily(torch.tensor([0, 0, 1]), Graph([0, 1], [1, 2], num_nodes=3), torch.tensor([True, True, True]))
    0.5
    """
    src, dst = _edges_between(graph, known)
    if not src.numel():
        return None
    if y.dim() == 1:
        return float((y[src] == y[dst]).double().mean())
    same = torch.zeros_like(src, dtype=torch.bool)
    for label in (y > 0).unbind(1):  # a label at a time: [E, C] may be large
        same |= label[src] & label[dst]
    return float(same.double().mean())


def assortativity(y: Tensor, graph: Graph, known: Tensor) -> float | None:
    """(h − c) / (1 − c) for the homophily h and that of random pairs of the same ends, c; None for too few edges.

    >>> pairs = Graph([0, 2] * LEAST_EDGES, [1, 3] * LEAST_EDGES, num_nodes=4)
    >>> assortativity(torch.tensor([0, 0, 1, 1]), pairs, torch.ones(4, dtype=torch.bool))
    1.0
    """
    ends = torch.cat(_edges_between(graph, known))
    if len(ends) < 2 * LEAST_EDGES:
        return None
    share = torch.bincount(y[ends]).double()
    alike, chance = homophily(y, graph, known), float((share / share.sum()).square().sum())
    return None if alike is None or chance == 1 else (alike - chance) / (1 - chance)


def _edges_between(graph: Graph, known: Tensor) -> tuple[Tensor, Tensor]:
    """Sender and receiver of the edges between two known nodes, loops aside; the edge list of rows is not made."""
    found = [torch.empty(2, 0, dtype=torch.int64)]
    for src, dst in graph.edge_chunks():
        both = known[src] & known[dst] & (src != dst)
        found.append(torch.stack([src[both], dst[both]]))
    src, dst = torch.cat(found, 1)
    return src, dst


def _rows_differ(x: Tensor | None) -> bool:
    if x is None or choose_scale(x) == "none":
        return False
    total = row_sums(x)
    return bool(total.std(correction=0) > VARIED * total.mean())


def count_entries(x: Tensor | None) -> int:
    """Entries of the features that are not zero."""
    return 0 if x is None else int(torch.count_nonzero(x if x.layout == torch.strided else x.values()))
