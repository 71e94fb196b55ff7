"""Where to draw the nodes of a small graph: distances on paper follow distances in the graph."""

from __future__ import annotations

import numpy as np

from gpnn.graph import Graph

_ITERATIONS = 300


def layout(graph: Graph, seed: int = 0) -> np.ndarray:
    """Positions [N, 2] by stress majorisation: a chain is a line, a ring a circle, one edge about one unit.

    The longer axis lies across; components lie side by side, the largest first.

    Args:
        graph: N nodes; directions and parallel edges do not matter.
        seed: of the start.

    >>> layout(Graph([0, 1], [1, 2], num_nodes=3))[:, 0].round(2).tolist()
    [0.0, 1.0, 2.0]
    """
    from scipy.sparse.csgraph import shortest_path

    hops = shortest_path(graph.to_scipy(weighted=False), directed=False, unweighted=True)
    labels = graph.components().numpy()
    positions = np.zeros((graph.num_nodes, 2))
    edge = 0.0
    for number in np.argsort(-np.bincount(labels), kind="stable"):
        members = np.flatnonzero(labels == number)
        placed = _upright(_majorise(hops[np.ix_(members, members)], seed))
        positions[members] = placed + np.array([edge - placed[:, 0].min(), 0])
        edge = positions[members, 0].max() + 1
    return positions


def _majorise(hops: np.ndarray, seed: int) -> np.ndarray:
    """SMACOF with weights hops⁻²: each step solves L·x = L(x)·x, which never raises the stress."""
    size = len(hops)
    if size == 1:
        return np.zeros((1, 2))
    positions = _classical(hops) + 1e-3 * np.random.default_rng(seed).standard_normal((size, 2))
    weight = 1 / np.maximum(hops, 1) ** 2
    np.fill_diagonal(weight, 0)
    inverse = np.linalg.pinv(np.diag(weight.sum(1)) - weight)
    for _ in range(_ITERATIONS):
        apart = np.hypot(*(np.subtract.outer(axis, axis) for axis in positions.T))
        pull = weight * hops / np.maximum(apart, 1e-9)
        moved = inverse @ (pull.sum(1)[:, None] * positions - pull @ positions)
        still = np.abs(moved - positions).max() < 1e-4
        positions = moved
        if still:
            break
    return positions


def _classical(hops: np.ndarray) -> np.ndarray:
    """Classical scaling: the two leading axes of the doubly centred squared distances."""
    squared = hops**2
    centred = squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    leading = vectors[:, -1:-3:-1] * np.sqrt(np.maximum(values[-1:-3:-1], 0))
    return leading * np.where(leading[0] > 0, -1, 1)  # node 0 to the left: the sign is arbitrary


def _upright(positions: np.ndarray) -> np.ndarray:
    """Centred, the longer axis across, the first node to the left."""
    centred = positions - positions.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes.T
    if turned.shape[1] < 2:
        turned = np.c_[turned, np.zeros(len(turned))]
    return turned * np.where(turned[0] > 0, -1, 1)
