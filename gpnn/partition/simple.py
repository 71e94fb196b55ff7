"""Partitions that need no search: given, drawn at random, or whole connected components."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from gpnn.graph import Graph
from gpnn.partition.partition import Partition

Labels: TypeAlias = "Partition | Tensor | np.ndarray | Sequence[int] | str | PathLike[str]"


def given(
    graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None, labels: Labels | None = None
) -> Partition:
    """The partition that `labels` gives.

    Args:
        graph: the graph that it divides.
        k: number of subgraphs K: labels of an array lie below it (a part may be empty), a file's or a
            partition's own number of parts equals it.
        labels: part of each node, integers `[N]`; or a :class:`Partition`; or the path of a partition that
            was saved or of METIS's text (the name ends in `.part.K`, one part per line).

    Raises:
        ValueError: when there are no labels, they are not integers, or do not fit the graph or k.

    >>> given(Graph([0, 1], [1, 2], num_nodes=3), 2, labels=[0, 0, 1]).sizes.tolist()
    [2, 1]
    """
    partition = _read(labels, k)
    if partition.num_nodes != graph.num_nodes:
        raise ValueError(f"`labels` must have an entry for each of {graph.num_nodes} nodes. Got {partition.num_nodes}.")
    if partition.num_parts != k:
        raise ValueError(f"`k` must be the {partition.num_parts} parts of `labels`. Got {k}.")
    return partition


def _read(labels: Labels | None, k: int) -> Partition:
    if labels is None:
        raise ValueError('`labels` must be an array, a file or a Partition for the method "given". Got None.')
    if isinstance(labels, Partition):
        return labels
    if isinstance(labels, str | PathLike):
        return Partition.load(labels)
    return Partition(labels if isinstance(labels, Tensor) else _integers(labels), k)


def _integers(labels: np.ndarray | Sequence[int]) -> Tensor:
    """The labels as a tensor of their own: torch warns of arrays that are read-only."""
    try:
        array = np.asarray(labels)
    except ValueError:
        raise ValueError("`labels` must have shape [N]. Got rows of different lengths.") from None
    if array.dtype.kind not in "iu":
        raise ValueError(f"`labels` must hold integers. Got {array.dtype}.")
    return torch.from_numpy(array.astype(np.int64))


def components(graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None) -> Partition:
    """Pack the weakly connected components, largest first, each into the part that is smallest then.

    The largest part is at most 4/3 of the best possible (Graham 1969). Equal components go by their first
    node and equal parts by their number, so that nothing is random.

    Raises:
        ValueError: when there are fewer than k components: some part would be empty, and dividing a component
            is the work of the other methods.

    >>> pairs = Graph([0, 2, 4], [1, 3, 5], num_nodes=7)
    >>> components(pairs, 2).labels.tolist()
    [0, 0, 1, 1, 0, 0, 1]
    """
    from gpnn.partition.kernels import assign_components

    count = int(graph.components().max()) + 1
    if k > count:
        raise ValueError(f"`k` must be at most the {count} connected components. Got {k}.")
    rows = graph.out_edges(with_edge=False)
    labels = np.full(graph.num_nodes, -1, np.int32)
    assign_components(rows.ptr, rows.index, labels, np.empty(graph.num_nodes, np.int32), k)
    return Partition(torch.from_numpy(labels), k)


def random(graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None) -> Partition:
    """Assign the nodes to k parts in random order, so that sizes differ by one at most.

    On average it cuts a fraction (1 − 1/k) of the edges.

    Args:
        graph: the graph; only its number of nodes counts.
        seed: of the order.

    >>> random(Graph([0], [1], num_nodes=7), 3, seed=0).sizes.tolist()
    [3, 2, 2]
    """
    labels = np.arange(graph.num_nodes) % k
    np.random.default_rng(seed).shuffle(labels)
    return Partition(torch.from_numpy(labels), k)
