"""Spectral clustering as in the authors' released code, kept to reproduce the paper's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_RESTARTS = 300  # of Lanczos from one start
_STARTS = 20
_K_MEANS_STARTS = 10


def released_spectral(weights: csr_matrix, k: int, seed: int = 0) -> np.ndarray:
    """Part of each node, int32, `[N]`: k-means on what the Lanczos iteration makes of L = I − D⁻¹W.

    The iteration (ARPACK's for symmetric matrices, in float32) is applied to L although L is not symmetric, so that its
    vectors are not eigenvectors and depend on the random start. Components are not told apart. On Cora at K = 5 the
    largest part has about 2,650 of 2,708 nodes: over 200 starts 2,516 to 2,683 in nine of ten, and 1,807 at least.

    The released code draws its start anew in every run; here it comes from the seed. Where an iteration has not
    converged after 300 restarts another start is tried; the released code goes on, which at K = 30 on NELL took it an
    hour.

    Args:
        weights: W, symmetric, not negative, `[N, N]`.
        k: number of parts, below N.
        seed: of the starts and of k-means.

    Raises:
        ValueError: for a k that is not below N, or where the iteration converges from no start.
    """
    from gpnn.partition.k_means import k_means
    from gpnn.partition.multilevel.spread import fill_empty

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
