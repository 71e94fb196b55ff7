import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import csr_matrix

from gpnn.partition import eigenvectors
from gpnn.partition.eigenvectors import slowest_modes
from gpnn.partition.eigenvectors_kernel import chebyshev_step


def grid_weights(rows: int, columns: int) -> csr_matrix:
    node = np.arange(rows * columns).reshape(rows, columns)
    first = np.r_[node[:, :-1].ravel(), node[:-1].ravel()]
    second = np.r_[node[:, 1:].ravel(), node[1:].ravel()]
    weights = csr_matrix((np.ones(len(first)), (first, second)), (rows * columns,) * 2)
    return (weights + weights.T).tocsr()


def _values(weights: csr_matrix, modes: np.ndarray) -> np.ndarray:
    """Rayleigh quotients of L = I − D⁻¹W in the inner product of D."""
    degree = np.asarray(weights.sum(1))
    return ((degree * modes * modes).sum(0) - (modes * (weights @ modes)).sum(0)) / (degree * modes * modes).sum(0)


def test_a_small_graph_against_all_eigenvectors():
    weights = grid_weights(5, 8)
    modes = slowest_modes(weights, 4)
    exact = eigh(
        np.diag(np.asarray(weights.sum(1)).ravel()) - weights.toarray(), np.diag(np.asarray(weights.sum(1)).ravel())
    )
    assert _values(weights, modes) == pytest.approx(exact[0][:4], abs=1e-9)
    assert np.ptp(modes[:, 0]) == pytest.approx(0, abs=1e-9)  # constant


def test_the_iteration_reaches_the_eigenvalues(monkeypatch):
    """A level of 1,600 nodes is coarsened, filtered and combined; the values agree with dense ones."""
    weights = grid_weights(40, 40)
    dense = _values(weights, slowest_modes(weights, 6))
    monkeypatch.setattr(eigenvectors, "_DENSE", 100)
    modes = slowest_modes(weights, 6, seed=1)
    exact = eigh(
        np.diag(np.asarray(weights.sum(1)).ravel()) - weights.toarray(),
        np.diag(np.asarray(weights.sum(1)).ravel()),
        subset_by_index=(0, 5),
    )[0]
    assert dense == pytest.approx(exact, abs=1e-5)
    assert _values(weights, modes) == pytest.approx(exact, abs=2e-5)


def test_the_same_seed_gives_the_same_modes(monkeypatch):
    monkeypatch.setattr(eigenvectors, "_DENSE", 100)
    weights = grid_weights(20, 30)
    assert (slowest_modes(weights, 5, seed=2) == slowest_modes(weights, 5, seed=2)).all()


def test_a_step_of_the_filter():
    matrix = grid_weights(3, 3).astype(np.float32)
    rng = np.random.default_rng(0)
    current, previous = rng.standard_normal((2, 9, 4)).astype(np.float32)
    expected = 1.5 * (matrix @ current - 0.25 * current) - previous
    chebyshev_step((matrix.indptr, matrix.indices, matrix.data), current, previous, np.float32(1.5), np.float32(0.25))
    assert previous == pytest.approx(expected, abs=1e-5)
