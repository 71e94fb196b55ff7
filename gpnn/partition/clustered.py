"""Clustered: parts made of clusters that label propagation finds, on a CPU or a GPU."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.graph import Graph
from gpnn.partition.partition import Partition

SAMPLE = 64  # neighbours of a node that are counted
SMALLEST = 32  # nodes that a cluster may always have
ROWS = 1 << 22  # rows that are looked through at one time
IMBALANCE = 0.05  # how far above the mean a part may lie before it accepts no more nodes


def clustered(
    graph: Graph,
    k: int,
    *,
    seed: int = 0,
    train_nodes: Tensor | None = None,
    rounds: int = 16,
    refinements: int = 6,
    device: str = "cpu",
) -> Partition:
    """Divide the graph into k parts of about equal size that cut few edges, by :func:`cluster_parts`.

    A CPU and a GPU give the same parts. Direction, edge types and edge weights play no role.

    Args:
        seed: of the choices among labels that equally many neighbours have.
        rounds: rounds of the clustering.
        refinements: rounds of label propagation between the parts.
        device: where the label propagation runs.

    Raises:
        ValueError: for a GPU that torch does not find.

    >>> two = Graph([0, 1, 2, 0, 3, 4, 5, 3, 2], [1, 2, 0, 2, 4, 5, 3, 5, 3], num_nodes=6)
    >>> clustered(two, 2).sizes.tolist()
    [3, 3]
    """
    from gpnn.partition.multilevel_refine import fill_empty
    from gpnn.partition.neighbours import neighbours

    if torch.device(device).type != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"`device` must be cpu where torch finds no GPU. Got {device!r}.")
    if graph.rows is not None and graph.rows.symmetric and torch.device(device).type != "cpu":
        ptr, col = drop_loops(graph.rows.ptr.to(device), graph.rows.col.to(device))
    else:
        ptr, col = (torch.from_numpy(array).to(device) for array in neighbours(graph))
    parts = cluster_parts(ptr, col, k, seed=seed, rounds=rounds, refinements=refinements)
    labels, narrow = parts.labels().cpu(), torch.int32 if graph.num_nodes < 2**31 else torch.int64
    if bool((parts.ptr.diff() == 0).any()):
        fill_empty(labels.numpy(), k)
        return Partition(labels, k)
    return Partition(labels, k, parts.order.to("cpu", narrow))


def drop_loops(ptr: Tensor, col: Tensor) -> tuple[Tensor, Tensor]:
    """Rows without the entries that are their own row, on any device, a range of rows at a time.

    >>> [each.tolist() for each in drop_loops(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 0]))]
    [[0, 1, 2], [1, 0]]
    """
    counts, kept = [], []
    for first in range(0, ptr.numel() - 1, ROWS):
        ends = ptr[first : first + ROWS + 1]
        own = torch.arange(first, first + len(ends) - 1, dtype=col.dtype, device=col.device)
        row = torch.repeat_interleave(own, ends.diff())
        some = col[int(ends[0]) : int(ends[-1])]
        stays = some != row
        counts.append(torch.bincount(row[stays] - first, minlength=len(ends) - 1))
        kept.append(some if bool(stays.all()) else some[stays])
    if sum(map(len, kept)) == len(col):
        return ptr, col
    return pointers(torch.cat(counts)), torch.cat(kept)


class Parts(NamedTuple):
    """Nodes grouped by part, and inside a part by cluster, so that neighbours lie close.

    Attributes:
        order: the nodes, `[N]`.
        ptr: part p owns `order[ptr[p]:ptr[p + 1]]`, `[K + 1]`.
    """

    order: Tensor
    ptr: Tensor

    def labels(self) -> Tensor:
        """Part of each node, int32, `[N]`."""
        sizes = self.ptr.diff()
        parts = torch.arange(len(sizes), dtype=torch.int32, device=self.order.device)
        return torch.empty_like(self.order, dtype=torch.int32).scatter_(
            0, self.order, torch.repeat_interleave(parts, sizes.to(self.order.device))
        )


def cluster_parts(ptr: Tensor, col: Tensor, k: int, *, seed: int = 0, rounds: int = 16, refinements: int = 6) -> Parts:
    """Divide a symmetric graph in CSR form into k parts of about equal size that cut few edges, on its own device.

    Every node starts as a cluster of its own. In each round half of the nodes adopt the label that most of their
    neighbours have; a cluster that reaches an eighth of a part accepts no more. The clusters are then ordered by label
    and divided into k contiguous ranges of about equally many nodes, and a few more rounds move nodes to the part where
    most of their neighbours are. It is a tenth of the work of `refined` and finds clusters, not the best arrangement of
    them.

    Args:
        ptr: where each node's neighbours begin, `[N + 1]`.
        col: the neighbours, `[E]`.
        k: number of parts K.
        seed: of the choices among labels that equally many neighbours have.
        rounds: rounds of the clustering.
        refinements: rounds of label propagation between the parts.

    Raises:
        ValueError: when there are fewer nodes than parts.
    """
    num_nodes = ptr.numel() - 1
    if not 1 <= k <= num_nodes:
        raise ValueError(f"`k` must be from 1 to the {num_nodes} nodes. Got {k}.")
    clusters = torch.arange(num_nodes, dtype=torch.int32, device=ptr.device)
    for number in range(rounds):
        sizes = torch.bincount(clusters, minlength=num_nodes)
        clusters = _propagate(ptr, col, clusters, sizes > max(SMALLEST, num_nodes // k // 8), seed, number)
    _, clusters, sizes = clusters.unique(return_inverse=True, return_counts=True)
    parts = _cut_ranges(sizes, k)[clusters]
    for number in range(rounds, rounds + refinements):
        sizes = torch.bincount(parts, minlength=k)
        parts = _propagate(ptr, col, parts, sizes > (1 + IMBALANCE) * num_nodes / k, seed, number)
    return _group(clusters, parts, k)


def _propagate(ptr: Tensor, col: Tensor, labels: Tensor, closed: Tensor, seed: int, number: int) -> Tensor:
    """The labels after one round, int32, `[N]`; labels that are `closed` `[L]` accept no new nodes."""
    out = torch.empty_like(labels)
    salts = (seed * 0x9E3779B1 & 0x7FFFFFFF, (number * 0x85EBCA6B + seed) & 0x7FFFFFFF)
    if labels.device.type == "cpu":
        from gpnn.partition.kernels import adopt_labels

        adopt_labels(*(each.numpy() for each in (ptr, col, labels, closed, out)), *salts, SAMPLE)
    else:
        from gpnn.partition.clustered_gpu import adopt_labels as launch

        launch[(labels.numel(),)](ptr, col, labels, closed.to(torch.int8), out, *salts, SAMPLE=SAMPLE, num_warps=2)
    return out


def _cut_ranges(sizes: Tensor, k: int) -> Tensor:
    """Part of each cluster, int32: contiguous ranges of clusters with about equally many nodes."""
    middle = sizes.cumsum(0) - sizes / 2
    return (middle * k / sizes.sum()).floor().clamp_(max=k - 1).int()


def _group(clusters: Tensor, parts: Tensor, k: int) -> Parts:
    order = (parts.long() * (int(clusters.max()) + 1) + clusters).argsort(stable=True)
    return Parts(order, pointers(torch.bincount(parts, minlength=k)))
