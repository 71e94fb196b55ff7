"""cluster_parts: parts of a graph that lies on a GPU, by label propagation there."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.csr import pointers

SAMPLE = 64  # neighbours that a node asks
SMALLEST = 32  # a cluster may always have so many nodes
IMBALANCE = 0.05  # how far above the mean a part may grow before it takes no more nodes


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


def cluster_parts(ptr: Tensor, col: Tensor, k: int, *, seed: int = 0, turns: int = 16, refinements: int = 6) -> Parts:
    """Divide a symmetric graph in CSR form into k parts of about equal size that cut few edges, on its own device.

    Every node starts as a cluster of its own and, turn by turn, takes the label that most of its neighbours have; a
    cluster that reaches an eighth of a part takes no more. Clusters are then put one after the other, the list is cut
    into k runs at their borders, and a few turns more let nodes move to the part where most of their neighbours are.
    It is a tenth of the work of `refined` and finds clusters, not the best arrangement of them.

    Args:
        ptr: where each node's neighbours begin, `[N + 1]`.
        col: the neighbours, `[E]`.
        k: number of parts K.
        seed: where the choices among equals come from.
        turns: turns of the clustering.
        refinements: turns of the parts.

    Raises:
        ValueError: when there are fewer nodes than parts.
    """
    num_nodes = ptr.numel() - 1
    if not 1 <= k <= num_nodes:
        raise ValueError(f"`k` must be from 1 to the {num_nodes} nodes. Got {k}.")
    clusters = torch.arange(num_nodes, dtype=torch.int32, device=ptr.device)
    for turn in range(turns):
        sizes = torch.bincount(clusters, minlength=num_nodes)
        clusters = _take_turn(ptr, col, clusters, sizes > max(SMALLEST, num_nodes // k // 8), seed, turn)
    _, clusters, sizes = clusters.unique(return_inverse=True, return_counts=True)
    parts = _cut_runs(sizes, k)[clusters]
    for turn in range(turns, turns + refinements):
        sizes = torch.bincount(parts, minlength=k)
        parts = _take_turn(ptr, col, parts, sizes > (1 + IMBALANCE) * num_nodes / k, seed, turn)
    return _group(clusters, parts, k)


def _take_turn(ptr: Tensor, col: Tensor, labels: Tensor, closed: Tensor, seed: int, turn: int) -> Tensor:
    from gpnn.partition.clustered_kernel import adopt

    out = torch.empty_like(labels)
    marks = (seed * 0x9E3779B1 & 0x7FFFFFFF, (turn * 0x85EBCA6B + seed) & 0x7FFFFFFF)
    adopt[(labels.numel(),)](ptr, col, labels, closed.to(torch.int8), out, *marks, SAMPLE=SAMPLE, num_warps=2)
    return out


def _cut_runs(sizes: Tensor, k: int) -> Tensor:
    """Part of each cluster, int32: runs of clusters of about equally many nodes each, none empty if it can be."""
    middle = sizes.cumsum(0) - sizes / 2
    return (middle * k / sizes.sum()).floor().clamp_(max=k - 1).int()


def _group(clusters: Tensor, parts: Tensor, k: int) -> Parts:
    order = (parts.long() * (int(clusters.max()) + 1) + clusters).argsort(stable=True)
    sizes = torch.bincount(parts, minlength=k)
    return Parts(order, pointers(sizes))
