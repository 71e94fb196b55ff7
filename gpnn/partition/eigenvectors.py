"""Eigenvectors: the slowest modes of a random walk, by multilevel filtered subspace iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


_DENSE = 1000  # nodes up to which all eigenvectors are computed
_CLUSTER = 8  # nodes of the largest cluster, from one level to the next
_ROUNDS = 30
_DEGREES = (8, 160)  # of the filter, least and most
_GROWTH = 2.5  # the filter amplifies the last wanted mode by about half of e to this, over unwanted ones
_RANGE = 10.0  # and the constant mode by at most half of e to this: float32 cannot hold more


def slowest_modes(weights: csr_matrix, count: int, seed: int = 0, tolerance: float = 1e-3) -> np.ndarray:
    """The eigenvectors of L = I − D⁻¹W of smallest eigenvalue, `[n, count]`, the constant one first.

    A few more vectors than requested are kept. They start as the modes of a coarser graph, made constant on
    its clusters, and are refined in rounds: a Chebyshev polynomial of L damps the rest of the spectrum, then
    the best combinations are kept (Rayleigh and Ritz). The rounds end when the wanted eigenvalues together
    fall by less than `tolerance` of their sum.

    Args:
        weights: W, symmetric, not negative, of a connected graph, `[n, n]`.
        count: how many.
        seed: of the random choices.
        tolerance: the relative fall of the sum of eigenvalues that ends the iteration.
    """
    width = min(weights.shape[0], count + max(8, count // 4))
    modes, _ = _modes(weights, count, width, np.random.default_rng(seed), tolerance)
    root = np.sqrt(_degree(weights))
    return modes[:, :count] / root[:, None]


def _modes(
    weights: csr_matrix, count: int, width: int, generator: np.random.Generator, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors `[n, width]` of S = D^-½ W D^-½ and the eigenvalues of I − S, ascending."""
    from scipy.linalg import eigh

    size = weights.shape[0]
    root = np.sqrt(_degree(weights))
    matrix = _scale(weights, 1 / root)
    if size <= max(_DENSE, 4 * width):
        values, vectors = eigh(matrix.toarray(), subset_by_index=(size - width, size - 1))
        return vectors[:, ::-1], 1 - values[::-1]
    start = _coarse_start(weights, root, count, width, generator, tolerance)
    return _iterate(matrix.astype(np.float32), start, count, tolerance)


def _coarse_start(
    weights: csr_matrix,
    root: np.ndarray,
    count: int,
    width: int,
    generator: np.random.Generator,
    tolerance: float,
) -> np.ndarray:
    """The modes of the graph of clusters, constant on each cluster, `[n, width]`; random if it does not shrink."""
    from scipy.sparse import csr_matrix

    size = len(root)
    labels, num_clusters = _clusters(weights, generator)
    if num_clusters < 2 * width or num_clusters > 0.8 * size:
        return generator.standard_normal((size, width))
    inside = csr_matrix((np.ones(size), labels, np.arange(size + 1)), (size, num_clusters))
    coarse = (inside.T @ weights @ inside).tocsr()  # W of the clusters, inner edges on the diagonal
    modes, _ = _modes(coarse, count, width, generator, tolerance)
    return root[:, None] * (modes / np.sqrt(_degree(coarse))[:, None])[labels]


def _iterate(matrix: csr_matrix, start: np.ndarray, count: int, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors and eigenvalues of I − `matrix`, from a block of vectors near their span."""
    block = start.astype(np.float32)
    total = np.inf
    for _ in range(_ROUNDS):
        values, block = _combine(matrix, block)
        wanted = values[:count].sum()
        if total - wanted <= tolerance * abs(wanted):
            break
        total = wanted
        block = _filter(matrix, block, values[-1], values[count - 1])
    return block, values


def _combine(matrix: csr_matrix, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ritz values of I − `matrix` in the span of `block`, ascending, and their orthonormal vectors."""
    from scipy.linalg import eigh

    block = block / np.linalg.norm(block, axis=0)
    exact = block.astype(np.float64)  # the Gram matrix of nearly dependent vectors needs the digits
    gram = exact.T @ exact
    within, basis = eigh(gram)
    basis = basis[:, within > 1e-10 * within[-1]] / np.sqrt(within[within > 1e-10 * within[-1]])
    applied = (matrix @ block).astype(np.float64)
    values, mix = eigh(basis.T @ (exact.T @ applied) @ basis)
    return 1 - values[::-1], block @ (basis @ mix[:, ::-1]).astype(np.float32)


def _filter(matrix: csr_matrix, block: np.ndarray, cutoff: float, wanted: float) -> np.ndarray:
    """T_d of L mapped so that [cutoff, 2] becomes [-1, 1]: small there, large below."""
    cutoff = min(max(cutoff, 1e-6), 1.9)
    rise = np.arccosh(1 + 2 * max(cutoff - wanted, 1e-9) / (2 - cutoff))
    steepest = np.arccosh((2 + cutoff) / (2 - cutoff))
    degree = int(min(np.clip(_GROWTH / rise, *_DEGREES), max(_RANGE / steepest, 2)))
    # in terms of S = I − L the damped interval is [-1, 1 − cutoff]
    centre, half = np.float32(-cutoff / 2), np.float32((2 - cutoff) / 2)
    rows = (matrix.indptr, matrix.indices, matrix.data)
    previous, current = np.zeros_like(block), np.ascontiguousarray(block)
    chebyshev_step(rows, current, previous, 1 / half, centre)
    previous, current = current, previous
    for _ in range(degree - 1):
        chebyshev_step(rows, current, previous, 2 / half, centre)
        previous, current = current, previous
    return current


def _clusters(weights: csr_matrix, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """Clusters of a few nodes joined by heavy edges, `[n]`, and their number."""
    from gpnn.partition.kernels import stream
    from gpnn.partition.multilevel_cluster import cluster
    from gpnn.partition.multilevel_hierarchy import number
    from gpnn.partition.multilevel_level import Level

    whole = np.maximum(weights.data * (1000 / weights.data.max()), 1).astype(np.int32)
    one = np.ones((weights.shape[0], 1), np.int32)
    level = Level(weights.indptr.astype(np.int64), weights.indices.astype(np.int32), whole, one)
    labels = cluster(level, np.array([_CLUSTER]), 2, stream(int(generator.integers(1 << 31))))
    return labels, number(labels)


def _degree(weights: csr_matrix) -> np.ndarray:
    return np.asarray(weights.sum(1)).ravel()


def _scale(weights: csr_matrix, factor: np.ndarray) -> csr_matrix:
    """diag(factor) · weights · diag(factor)."""
    from scipy.sparse import csr_matrix

    rows = np.repeat(factor, np.diff(weights.indptr))
    return csr_matrix((weights.data * rows * factor[weights.indices], weights.indices, weights.indptr), weights.shape)


@njit(cache=True, fastmath=True)
def chebyshev_step(matrix, current, previous, scale, centre):  # type: ignore[no-untyped-def]
    """previous ← scale · (matrix − centre) · current − previous, in place, in one pass over memory.

    Args:
        matrix: compressed rows (ptr, index, value) of a symmetric matrix, float32.
        current, previous: two blocks of vectors, `[n, m]`, float32.
        scale, centre: float32.
    """
    ptr, index, value = matrix
    width = current.shape[1]
    for row in range(len(ptr) - 1):
        for column in range(width):
            previous[row, column] = -previous[row, column] - scale * centre * current[row, column]
        for e in range(ptr[row], ptr[row + 1]):
            factor = scale * value[e]
            other = index[e]
            for column in range(width):
                previous[row, column] += factor * current[other, column]
