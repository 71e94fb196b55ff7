"""Conjugate gradients for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def conjugate_gradient(
    apply: Callable[[np.ndarray], np.ndarray],
    target: np.ndarray,
    diagonal: np.ndarray,
    *,
    tolerance: float = 1e-3,
    max_steps: int = 500,
) -> np.ndarray:
    """The Z with A Z = target, `[n, C]`, for a symmetric positive definite A, preconditioned by a diagonal.

    Each column takes its own steps, and none once its residual is below `tolerance` times its target.

    Args:
        apply: A as a function of some of the columns, `[n, c]`.
        target: `[n, C]`.
        diagonal: positive, near A's own, `[n]`.
        tolerance: relative residual at which a column is solved.
        max_steps: the most steps.

    >>> matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradient(lambda z: matrix @ z, np.array([[3.0], [4.0]]), np.ones(2)).round(3).tolist()
    [[1.0], [1.0]]
    """
    solution, scale = np.zeros_like(target), 1 / diagonal[:, None]
    bound = (tolerance * np.linalg.norm(target, axis=0)) ** 2
    open_columns = np.flatnonzero(bound > 0)
    residual = target[:, open_columns]
    direction = residual * scale
    energy = _dot(residual, direction)
    for _ in range(max_steps):
        if not len(open_columns):
            break
        image = apply(direction)
        step = energy / _dot(direction, image)
        solution[:, open_columns] += step * direction
        residual -= step * image
        scaled = residual * scale
        previous, energy = energy, _dot(residual, scaled)
        direction = scaled + energy / previous * direction
        left = _dot(residual, residual) > bound[open_columns]
        if not left.all():
            open_columns, energy = open_columns[left], energy[left]
            residual, direction = residual[:, left], direction[:, left]
    return solution


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of each pair of columns, `[C]`."""
    return np.einsum("nc,nc->c", a, b)
