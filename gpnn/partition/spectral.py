"""Spectral: the paper's normalised cut, by k-means on the slowest modes of a random walk."""

from __future__ import annotations

import heapq
import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.graph import Graph
from gpnn.partition.partition import Partition

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


POINTS = ("modes", "directions", "released")


def spectral(
    graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None, points: str = "modes"
) -> Partition:
    """Cluster the nodes by the k slowest modes of the random walk: the eigenvectors of L = I − D⁻¹W.

    W counts the edges between two nodes in either direction; self-loops, types and weights play no role. The
    modes do not divide several components, so these are separated first: large ones get parts in proportion to
    their nodes and are divided independently; small ones, isolated nodes among them, stay whole and are assigned,
    largest first, to the smallest part. Sizes follow the graph and may differ much; none is 0.

    Time and memory grow as k · (N + E); two blocks of about 1.25 · k float32 vectors are held.

    Args:
        points: what k-means clusters: "modes", the entries per node in the modes (Shi and Malik 2000, whose
            normalised cut they minimise), or "directions", those entries scaled to length 1 (after Ng, Jordan
            and Weiss 2001), which cuts more edges and gives more even parts; or "released", the vectors of the
            paper's released code, which are not modes (:func:`gpnn.partition.spectral.released_spectral`):
            to reproduce its runs.

    Raises:
        ValueError: for unknown points.

    >>> two = Graph([0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3], num_nodes=6)
    >>> spectral(two, 2).sizes.tolist()
    [3, 3]
    """
    from gpnn.partition.kernels import assign_components

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
    assign_components(weights.indptr.astype(np.int64), weights.indices, labels, np.empty(graph.num_nodes, np.int32), k)
    return Partition(torch.from_numpy(labels), k)


def share_parts(size: np.ndarray, k: int) -> np.ndarray:
    """How many of k parts each component is divided into, `[C]`; 0 for those that are packed whole.

    Components of less than half a mean part are packed, and parts in proportion to their nodes are kept free
    for them. The others get one part each, and what is left goes, one at a time, to the component that has
    most nodes per part.

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

    from gpnn.partition.neighbours import distinct_neighbours

    ptr, index, weight = distinct_neighbours(graph)
    return csr_matrix((weight.astype(np.float64), index, ptr), (graph.num_nodes, graph.num_nodes))


def _divide(weights: csr_matrix, k: int, seed: int, points: str) -> np.ndarray:
    """Part of each node of one component, `[n]`; none is empty."""
    if k == 1:
        return np.zeros(weights.shape[0], np.int32)
    from gpnn.partition.eigenvectors import slowest_modes
    from gpnn.partition.multilevel_refine import fill_empty

    modes = slowest_modes(weights, k, seed)
    if points == "directions":
        modes /= np.linalg.norm(modes, axis=1, keepdims=True)  # the first mode is constant: no row is 0
    labels = k_means(modes, k, seed)
    fill_empty(labels, k)
    return labels


_RESTARTS = 300  # of Lanczos from one start
_STARTS = 20
_K_MEANS_STARTS = 10


def released_spectral(weights: csr_matrix, k: int, seed: int = 0) -> np.ndarray:
    """Part of each node, int32, `[N]`: k-means on what the Lanczos iteration makes of L = I − D⁻¹W.

    The iteration (ARPACK's for symmetric matrices, in float32) is applied to L although L is not symmetric, so that its
    vectors are not eigenvectors and depend on the random start. Components are not separated. On Cora at K = 5 the
    largest part has about 2,650 of 2,708 nodes: over 200 starts 2,516 to 2,683 in nine of ten, and 1,807 at least.

    The released code draws its start anew in every run; here it comes from the seed. Rounding decides, too: another
    machine or version of SciPy gives another partition for the same seed. Where an iteration has not
    converged after 300 restarts another start is tried; the released code continues, which at K = 30 on NELL lasted an
    hour.

    Args:
        weights: W, symmetric, not negative, `[N, N]`.
        k: number of parts, below N.
        seed: of the starts and of k-means.

    Raises:
        ValueError: for a k that is not below N, or where the iteration converges from no start.
    """
    from gpnn.partition.multilevel_refine import fill_empty

    if k >= weights.shape[0]:
        raise ValueError(f"`k` must be below the {weights.shape[0]} nodes for the points 'released'. Got {k}.")
    labels = k_means(_lanczos_vectors(_laplacian(weights), k, seed), k, seed, starts=_K_MEANS_STARTS)
    fill_empty(labels, k)
    return labels


def _laplacian(weights: csr_matrix) -> csr_matrix:
    """I − D⁻¹W in float32; a node without a neighbour has an empty row."""
    from scipy.sparse import diags

    degree = np.asarray(weights.sum(1), np.float32).ravel()
    inverse = np.divide(1, degree, out=np.zeros_like(degree), where=degree > 0)
    return (diags((degree > 0).astype(np.float32)) - diags(inverse) @ weights.astype(np.float32)).tocsr()


def _lanczos_vectors(laplacian: csr_matrix, k: int, seed: int) -> np.ndarray:
    """The k vectors of smallest Ritz values in magnitude, `[N, k]`."""
    from scipy.sparse.linalg import ArpackError, eigsh

    generator = np.random.default_rng(seed)
    for _ in range(_STARTS):
        start = generator.uniform(-1, 1, laplacian.shape[0]).astype(np.float32)
        try:
            return eigsh(laplacian, k=k, which="SM", v0=start, maxiter=_RESTARTS)[1]
        except ArpackError:
            continue
    raise ValueError(f"The iteration of the points 'released' must converge. It did from none of {_STARTS} starts.")


_SAMPLE = 50  # points per cluster that it starts from, and the least in all
_LEAST_SAMPLE = 5_000
_SAMPLE_STARTS = 3
_LAST_ROUNDS = 15


def k_means(points: np.ndarray, k: int, seed: int = 0, starts: int = _SAMPLE_STARTS) -> np.ndarray:
    """Cluster of each point, int32, `[n]`; one may be empty where fewer than k points differ.

    It runs in one thread: several add up in an order that changes from run to run.

    Args:
        points: `[n, d]`.
        k: number of clusters.
        seed: of the sample and of the starts.
        starts: how often the sample is clustered; the best is kept.

    >>> k_means(np.array([[0.0], [9.0], [0.1], [9.1]]), 2).tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    True
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    points = np.ascontiguousarray(points / np.abs(points).max(), np.float32)
    sample = points
    if len(points) > (size := max(_LEAST_SAMPLE, _SAMPLE * k)):
        sample = points[np.random.default_rng(seed).choice(len(points), size, replace=False)]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        start = KMeans(k, n_init=starts, random_state=seed % 2**32).fit(sample)
        if sample is points:
            return start.labels_.astype(np.int32)
        whole = KMeans(k, init=start.cluster_centers_, n_init=1, max_iter=_LAST_ROUNDS).fit(points)
    return whole.labels_.astype(np.int32)
