import numpy as np

from experiments.baselines.conjugate_gradient import conjugate_gradient


def test_agrees_with_a_direct_solution_column_by_column() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((20, 20))
    matrix = root @ root.T + 20 * np.eye(20)
    target = rng.standard_normal((20, 4)) * [1, 1e-3, 1e3, 0]
    found = conjugate_gradient(lambda z: matrix @ z, target, np.diag(matrix), tolerance=1e-10)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, target), rtol=1e-6, atol=1e-12)


def test_stops_at_max_steps() -> None:
    calls = []
    conjugate_gradient(
        lambda z: calls.append(1) or np.arange(1, 51)[:, None] * z, np.ones((50, 1)), np.ones(50), max_steps=3
    )
    assert len(calls) == 3
