"""NodeIds: the row of each node's id, whatever kind of ids a graph has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpnn.csr import index_type
from gpnn.data.kernels import (
    find_direct,
    find_numbers,
    find_rows,
    find_text,
    insert_numbers,
    insert_text,
)
from gpnn.data.npy_file import write_array
from gpnn.data.tables.column import as_text, named, text_bytes
from gpnn.data.tables.table import Table

if TYPE_CHECKING:
    import pyarrow

Find = Callable[[Any, np.ndarray], int]  # writes the row of each key; the first key that is not an id, or -1


@dataclass(frozen=True, eq=False)
class NodeIds:
    """From ids to rows.

    Attributes:
        names: the id of each row, int64 or text, `[N]`; None where the id of a row is its number.
        num_nodes: N.
        where: what holds the ids, for errors.
        find: how a row is found.
        num_bytes: that the table takes.
    """

    names: pyarrow.Array | None
    num_nodes: int
    where: str
    find: Find
    num_bytes: int

    def rows(self, table: Table, column: str) -> np.ndarray:
        """Of each value of a column its row, `[R]`, int32 where it fits.

        Raises:
            ValueError: for a value that is not an id, with its file, row and value.
        """
        from pyarrow import types

        keys = named(table.columns[column])
        out = np.empty(len(keys), index_type(self.num_nodes))
        if types.is_int64(keys.type) and not self.is_text:
            bad = self.find(keys.to_numpy(), out)
        elif self.is_text:
            bad = self.find(text_bytes(as_text(keys)), out)
        else:  # text among numbers: the first that is not a number in its usual form
            bad = self._first_other(table, column, out)
        if bad >= 0:
            table.refuse_id(column, bad, self.names, self.where)
        return out

    @property
    def is_text(self) -> bool:
        from pyarrow import types

        return self.names is not None and not types.is_int64(self.names.type)

    def _first_other(self, table: Table, column: str, out: np.ndarray) -> int:
        for row, value in enumerate(as_text(table.columns[column]).to_pylist()):
            try:
                key = int(value)
            except ValueError:
                return row
            if str(key) != value or self.find(np.array([key]), out[row : row + 1]) >= 0:
                return row
        return -1

    def save(self, folder: Path) -> None:
        """Write the ids as `ids.npy`, or `id_ptr.npy` and `id_text.npy`; nothing where they are the rows."""
        if self.names is None:
            return
        if self.is_text:
            ptr, content = text_bytes(self.names)
            parts = {"id_ptr": ptr - ptr[0], "id_text": content[ptr[0] : ptr[-1]]}
        else:
            parts = {"ids": self.names.to_numpy()}
        for name, values in parts.items():
            write_array(folder / f"{name}.npy", values)


def row_ids(num_nodes: int, where: str) -> NodeIds:
    """Ids that are the numbers of the rows."""
    return NodeIds(None, num_nodes, where, lambda keys, out: find_rows(keys, num_nodes, out), 0)


def make_ids(table: Table) -> NodeIds:
    """The ids of the column `id`, `[N]`, which must be distinct and none empty.

    Raises:
        ValueError: naming the row and value.
    """
    from pyarrow import types

    names, where = named(table.columns["id"]), table.file
    if not types.is_int64(names.type):
        return _text_ids(table, names)
    numbers = names.to_numpy()
    low, high = int(numbers.min()), int(numbers.max())
    if low == 0 and high == len(numbers) - 1 and bool((np.diff(numbers) == 1).all()):
        return row_ids(len(numbers), where)
    narrow = index_type(len(numbers))
    if high - low < 4 * len(numbers) + 1024:
        direct = np.full(high - low + 1, -1, narrow)
        direct[numbers - low] = np.arange(len(numbers), dtype=narrow)
        if (direct >= 0).sum() == len(numbers):
            find: Find = lambda keys, out: find_direct(keys, low, direct, out)  # noqa: E731
            return NodeIds(names, len(numbers), where, find, direct.nbytes + numbers.nbytes)
    slots = _slots(len(numbers))
    _check_distinct(table, *insert_numbers(numbers, slots))
    find = lambda keys, out: find_numbers(keys, numbers, slots, out)  # noqa: E731
    return NodeIds(names, len(numbers), where, find, slots.nbytes + numbers.nbytes)


def _text_ids(table: Table, names: pyarrow.Array) -> NodeIds:
    ptr, content = text_bytes(names)
    empty = np.flatnonzero(np.diff(ptr) == 0)
    if len(empty):
        table.refuse("id", int(empty[0]), "must not be empty")
    slots = _slots(len(names))
    _check_distinct(table, *insert_text(ptr, content, slots))
    find: Find = lambda keys, out: find_text(*keys, ptr, content, slots, out)  # noqa: E731
    return NodeIds(names, len(names), table.file, find, slots.nbytes + ptr.nbytes + content.nbytes)


def _slots(count: int) -> np.ndarray:
    """Empty slots, at most two thirds of which will be taken."""
    return np.full(1 << max(4, int(count * 1.5).bit_length()), -1, index_type(count))


def _check_distinct(table: Table, row: int, other: int) -> None:
    if row >= 0:
        table.refuse("id", row, f"must be distinct and is on {table.place(other)} already")
