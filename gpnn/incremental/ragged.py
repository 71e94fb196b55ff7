"""RaggedRows: rows of different lengths that can be replaced one by one."""

from __future__ import annotations

import numpy as np

from gpnn.csr import pointers

LEAST_GARBAGE = 1 << 16  # entries that no row owns any more, below which the pool is left as it is


class RaggedRows:
    """Rows of one pool: row r owns `length[r]` entries from `start[r]`, in each column of the pool.

    A replaced row is written at the pool's end. When no row owns half of the pool, it is packed.

    Args:
        ptr: where each row begins, `[R + 1]`.
        columns: the values of the entries, each `[ptr[R]]`.

    >>> rows = RaggedRows(np.array([0, 1, 3]), np.array([5, 6, 7]))
    >>> rows.replace(np.array([0]), np.array([2]), np.array([8, 9]))
    >>> counts, (values,) = rows.gather(np.array([1, 0]))
    >>> counts.tolist(), values.tolist()
    ([2, 2], [6, 7, 8, 9])
    """

    def __init__(self, ptr: np.ndarray, *columns: np.ndarray) -> None:
        self.start, self.length = ptr[:-1].astype(np.int64), np.diff(ptr).astype(np.int64)
        self.columns, self.used = list(columns), int(ptr[-1])
        self.live = self.used

    def gather(self, rows: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """How many entries each of the rows has, `[n]`, and their values one row after the other, per column."""
        counts = self.length[rows]
        entries = ranges(self.start[rows], counts)
        return counts, [column[entries] for column in self.columns]

    def replace(self, rows: np.ndarray, counts: np.ndarray, *columns: np.ndarray) -> None:
        """Give the rows, distinct `[n]`, other entries: `counts` each, whose values follow each other in `columns`."""
        total, end = int(counts.sum()), self.used
        self.live += total - int(self.length[rows].sum())
        for number, values in enumerate(columns):
            self.columns[number] = enlarge(self.columns[number], end + total)
            self.columns[number][end : end + total] = values
        self.start[rows], self.length[rows] = end + pointers(counts)[:-1], counts
        self.used = end + total
        if self.used - self.live > max(self.live, LEAST_GARBAGE):
            self._pack()

    def enlarge(self, num_rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        self.start, self.length = enlarge(self.start, num_rows), enlarge(self.length, num_rows)

    def _pack(self) -> None:
        counts, columns = self.gather(np.arange(len(self.start)))
        self.start, self.columns, self.used = pointers(counts)[:-1], columns, self.live


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The numbers from each start on, `counts` of them, one range after the other.

    >>> ranges(np.array([7, 3]), np.array([2, 3])).tolist()
    [7, 8, 3, 4, 5]
    """
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)


def enlarge(values: np.ndarray, length: int) -> np.ndarray:
    """The array, or a copy a quarter longer than needed, filled up with zeros, where it is shorter than `length`."""
    if len(values) >= length:
        return values
    longer = np.zeros((length + length // 4, *values.shape[1:]), values.dtype)
    longer[: len(values)] = values
    return longer


def distinct(values: np.ndarray) -> np.ndarray:
    """The distinct integers, rising; `numpy.unique` hashes them first, which takes longer.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    values = np.sort(values)
    return values[np.append(True, values[1:] != values[:-1])] if len(values) else values
