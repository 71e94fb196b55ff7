"""Rows that come and go: of different lengths, of features, and the slots that nodes have in them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.data.features import csr_tensor
from gpnn.storage.read import shorten

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
            counts, self.columns = self.gather(np.arange(len(self.start)))
            self.start, self.used = pointers(counts)[:-1], self.live

    def enlarge(self, num_rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        self.start, self.length = enlarge(self.start, num_rows), enlarge(self.length, num_rows)


class FeatureStore:
    """A row of features for each slot.

    Args:
        x: features to begin with, dense or sparse CSR, `[N, F]`: row i is slot i.

    >>> store = FeatureStore(torch.eye(2))
    >>> store.set(np.array([2]), torch.ones(1, 2))
    >>> store.take(np.array([2, 0])).tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, x: Tensor) -> None:
        self.num_columns, self.dtype = x.shape[1], x.dtype
        self._dense: np.ndarray | None = None
        if x.layout == torch.strided:
            self._dense = x.detach().cpu().numpy()
        else:
            self._sparse = RaggedRows(*_csr(x))

    def take(self, slots: np.ndarray) -> Tensor:
        """The rows of these slots, `[n, F]`."""
        if self._dense is not None:
            return torch.from_numpy(self._dense[slots])
        counts, (columns, values) = self._sparse.gather(slots)
        return csr_tensor(pointers(counts), columns, values, (len(slots), self.num_columns))

    def set(self, slots: np.ndarray, x: Tensor) -> None:
        """Give these slots the rows of `x`, dense or sparse, `[n, F]`."""
        if self.dtype == torch.int8 != x.dtype:
            raise ValueError(f"Features of 8 bits can be replaced by others of 8 bits. Got {x.dtype}.")
        most = int(slots.max(initial=-1)) + 1
        if self._dense is not None:
            self._dense = enlarge(self._dense, most)
            if not self._dense.flags.writeable or self._dense.base is not None:
                self._dense = self._dense.copy()  # the user's own
            self._dense[slots] = (x if x.layout == torch.strided else x.to_dense()).to(self.dtype).numpy()
            return
        self._sparse.enlarge(most)
        ptr, columns, values = _csr(x)
        self._sparse.replace(slots, np.diff(ptr), columns, values)


class NodeSlots:
    """Ids of nodes and their slots; the slots of nodes that went are used again.

    Args:
        ids: of the nodes to begin with, distinct: node i is in slot i.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids: list[str | None] = list(ids)
        self._slot = {each: slot for slot, each in enumerate(ids)}
        self._free: list[int] = []

    def __contains__(self, node: str) -> bool:
        return node in self._slot

    def __len__(self) -> int:
        return len(self._slot)

    def find(self, nodes: Collection[str], what: str) -> np.ndarray:
        """The slots of these nodes, `[n]`.

        Raises:
            ValueError: when there is no such node; `what` names the argument.
        """
        try:
            return np.fromiter(map(self._slot.__getitem__, nodes), np.int64, len(nodes))
        except KeyError as error:
            raise ValueError(f"`{what}` must name nodes of the graph. Got {shorten(error.args[0])}.") from None

    def remove(self, nodes: Collection[str]) -> None:
        """Free the slots of these nodes."""
        for each in nodes:
            slot = self._slot.pop(each)
            self.ids[slot] = None
            self._free.append(slot)

    def add(self, nodes: Sequence[str]) -> np.ndarray:
        """Slots for new nodes, `[n]`: free ones, then further ones."""
        slots = [self._free.pop() for _ in nodes[: len(self._free)]]
        more = len(nodes) - len(slots)
        slots += range(len(self.ids), len(self.ids) + more)
        self.ids += [None] * more
        for each, slot in zip(nodes, slots):
            self.ids[slot] = each
        self._slot.update(zip(nodes, slots))
        return np.array(slots, np.int64)

    def in_order(self) -> np.ndarray:
        """The slots of all nodes, the oldest first, `[N]`."""
        return np.fromiter(self._slot.values(), np.int64, len(self._slot))


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


def distinct(*values: np.ndarray) -> np.ndarray:
    """The distinct integers of all, rising; `numpy.unique` hashes them first, which takes longer.

    >>> distinct(np.array([3, 1]), np.array([3])).tolist()
    [1, 3]
    """
    every = np.sort(np.concatenate(values))
    return every[np.append(True, every[1:] != every[:-1])] if len(every) else every


def _csr(x: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each row begins, and column and value of the entries that are not zero."""
    if x.layout == torch.sparse_csr:
        parts = (x.crow_indices(), x.col_indices(), x.values())
        return tuple(each.detach().cpu().numpy() for each in parts)  # type: ignore[return-value]
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((x if x.layout == torch.strided else x.to_dense()).detach().cpu().numpy())
    return matrix.indptr, matrix.indices, matrix.data
