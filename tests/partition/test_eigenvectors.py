import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import csr_matrix, diags

from gpnn.partition.eigenvectors import slowest_modes


def symmetric(pairs: np.ndarray, size: int) -> csr_matrix:
    matrix = csr_matrix((np.ones(len(pairs)), pairs.T), (size, size))
    return (matrix + matrix.T).tocsr()


def grid(side: int) -> csr_matrix:
    node = np.arange(side * side).reshape(side, side)
    across = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], 1)
    down = np.stack([node[:-1].ravel(), node[1:].ravel()], 1)
    return symmetric(np.concatenate([across, down]), side * side)


def star(leaves: int) -> csr_matrix:
    return symmetric(np.stack([np.zeros(leaves, int), np.arange(1, leaves + 1)], 1), leaves + 1)


def joined(size: int) -> csr_matrix:
    """Two random graphs joined by one edge."""
    drawn = np.random.default_rng(0).integers(0, size, (2, 6 * size, 2)) + np.array([0, size])[:, None, None]
    ring = np.stack([np.arange(2 * size), (np.arange(2 * size) + 1) % size + np.arange(2 * size) // size * size], 1)
    matrix = symmetric(np.concatenate([*drawn, ring, [[0, size]]]), 2 * size)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    return matrix


def exact(weights: csr_matrix, count: int) -> np.ndarray:
    """The smallest eigenvalues of I − D⁻¹W, by a dense solver."""
    root = np.sqrt(np.asarray(weights.sum(1)).ravel())
    return 1 - eigh(weights.toarray() / np.outer(root, root), eigvals_only=True)[::-1][:count]


def rayleigh(weights: csr_matrix, modes: np.ndarray) -> np.ndarray:
    """The eigenvalues of I − D⁻¹W within the span of the modes."""
    degree = np.asarray(weights.sum(1)).ravel()
    modes = modes.astype(np.float64)
    return eigh(modes.T @ ((diags(degree) - weights) @ modes), modes.T @ (degree[:, None] * modes), eigvals_only=True)


@pytest.mark.parametrize("count", [2, 10])
@pytest.mark.parametrize(
    "weights", [grid(12), grid(37), star(1500), joined(700)], ids=["dense", "grid", "star", "joined"]
)
def test_the_modes_span_what_the_smallest_eigenvalues_belong_to(weights, count):
    modes = slowest_modes(weights, count)
    assert modes.shape == (weights.shape[0], count)
    assert np.sum(rayleigh(weights, modes)) == pytest.approx(np.sum(exact(weights, count)), rel=2e-3, abs=1e-6)


def test_the_first_mode_is_constant():
    first = slowest_modes(grid(37), 3)[:, 0]
    assert np.ptp(first) < 1e-3 * abs(first.mean())


def test_the_second_tells_two_joined_graphs_apart():
    second = slowest_modes(joined(700), 2)[:, 1]
    assert (np.sign(second) == np.sign(second[5])).tolist() == [True] * 700 + [False] * 700


def test_the_same_seed_gives_the_same_bits():
    assert (slowest_modes(grid(37), 4, seed=3) == slowest_modes(grid(37), 4, seed=3)).all()
