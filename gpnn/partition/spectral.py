"""Spectral: the paper's normalised cut, by k-means on the slowest modes of a random walk."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.graph import Graph
from gpnn.partition.partition import Partition
from gpnn.partition.released_spectral import released_spectral

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

POINTS = ("modes", "directions", "released")


def spectral(
    graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None, points: str = "modes"
) -> Partition:
    """Cluster the nodes by the k slowest modes of the random walk: the eigenvectors of L = I − D⁻¹W.

    W counts the edges between two nodes in either direction; self-loops, types and weights play no role. The
    modes do not say how to divide several components, so that these are told apart first: large ones are
    shared out to parts by their nodes and divided each by itself; small ones, isolated nodes among them, stay
    whole and go, heaviest first, to the smallest part. Sizes follow the graph and may differ much; none is 0.

    Time and memory grow as k · (N + E); two blocks of about 1.25 · k float32 vectors are held.

    Args:
        graph: the graph.
        k: number of subgraphs K.
        seed: where the random choices come from.
        train_nodes: not used.
        points: what k-means clusters: "modes", a node's entries in the modes (Shi and Malik 2000, whose
            normalised cut they minimise), or "directions", those entries scaled to length 1 (after Ng, Jordan
            and Weiss 2001), which cuts more edges and gives more even parts; or "released", the vectors of the
            paper's released code, which are not modes (:func:`gpnn.partition.released_spectral.released_spectral`):
            to reproduce its runs.

    Raises:
        ValueError: for unknown points.

    >>> two = Graph([0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3], num_nodes=6)
    >>> spectral(two, 2).sizes.tolist()
    [3, 3]
    """
    check_choice("points", points, POINTS)
    weights = _weights(graph)
    if points == "released":
        return Partition(torch.from_numpy(released_spectral(weights, k, seed)), k)
    member = graph.components().numpy()
    size = np.bincount(member)
    parts = share_parts(size, k)
    labels = np.full(graph.num_nodes, -1, np.int32)
    first = 0
    for component in np.flatnonzero(parts):
        nodes = np.flatnonzero(member == component)
        inner = weights if len(nodes) == len(member) else weights[nodes][:, nodes]
        labels[nodes] = first + _divide(inner, int(parts[component]), seed, points)
        first += int(parts[component])
    _pack(labels, member, size, k)
    return Partition(torch.from_numpy(labels), k)


def share_parts(size: np.ndarray, k: int) -> np.ndarray:
    """How many of k parts each component is divided into, `[C]`; 0 for those that are packed whole.

    Components of less than half a mean part are packed, and parts in proportion to their nodes are kept free
    for them. The others get one part each, and what is left goes, one at a time, to the component that has
    most nodes a part.

    >>> share_parts(np.array([2, 70, 30, 1, 1]), 4).tolist()
    [0, 3, 1, 0, 0]
    """
    large = np.flatnonzero(2 * size * k >= size.sum())
    large = large[np.argsort(-size[large], kind="stable")][:k]
    packed = int(size.sum() - size[large].sum())
    free = min(packed * k // int(size.sum()), k - len(large))
    parts = np.zeros(len(size), np.int64)
    parts[large] = 1
    heap = [(-float(size[component]), int(component)) for component in large]
    heapq.heapify(heap)
    for _ in range(k - free - len(large)):
        component = heap[0][1]
        parts[component] += 1
        heapq.heapreplace(heap, (-size[component] / parts[component], component))
    return parts


def _weights(graph: Graph) -> csr_matrix:
    """W, symmetric, without a diagonal, `[N, N]`."""
    from scipy.sparse import csr_matrix

    from gpnn.partition.distinct_neighbours import distinct_neighbours

    ptr, index, weight = distinct_neighbours(graph)
    return csr_matrix((weight.astype(np.float64), index, ptr), (graph.num_nodes, graph.num_nodes))


def _divide(weights: csr_matrix, k: int, seed: int, points: str) -> np.ndarray:
    """Part of each node of one component, `[n]`; none is empty."""
    if k == 1:
        return np.zeros(weights.shape[0], np.int32)
    from gpnn.partition.eigenvectors import slowest_modes
    from gpnn.partition.k_means import k_means
    from gpnn.partition.multilevel.spread import fill_empty

    modes = slowest_modes(weights, k, seed)
    if points == "directions":
        modes /= np.linalg.norm(modes, axis=1, keepdims=True)  # the first mode is constant: no row is 0
    labels = k_means(modes, k, seed)
    fill_empty(labels, k)
    return labels


def _pack(labels: np.ndarray, member: np.ndarray, size: np.ndarray, k: int) -> None:
    """Give the components without a part, heaviest first, to the part that is smallest then, in place."""
    left = labels < 0
    heap = [(int(count), part) for part, count in enumerate(np.bincount(labels[~left], minlength=k))]
    heapq.heapify(heap)
    part_of = np.zeros(len(size), np.int32)
    waiting = np.unique(member[left])
    for component in waiting[np.argsort(-size[waiting], kind="stable")]:
        count, part = heap[0]
        part_of[component] = part
        heapq.heapreplace(heap, (count + int(size[component]), part))
    labels[left] = part_of[member[left]]
