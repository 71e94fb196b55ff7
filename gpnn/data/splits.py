"""Random splits of the labelled nodes, class by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.data.labels import are_numbers, labelled_nodes

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
    return y if y.dim() == 1 and not are_numbers(y) else labelled_nodes(y).long() - 1


def draw_split(data: Data, seed: int) -> str:
    """Set the masks of `data`, drawn class by class; return a note on the split.

    Args:
        data: with labels `y`.
    """
    split = split_fractions(strata(data.y), seed=seed)
    for name, mask in split._asdict().items():
        data[name] = mask
    counts = [int(mask.sum()) for mask in split]
    each = "" if are_numbers(data.y) else " of each class"
    shares = f"split drawn with seed {seed}, 60/20/20 %{each}"
    return f"{shares}: {counts[0]} nodes train, {counts[1]} validate, {counts[2]} test"
