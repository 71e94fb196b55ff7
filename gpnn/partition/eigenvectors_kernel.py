"""The compiled kernel of eigenvectors."""

from numba import njit


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
