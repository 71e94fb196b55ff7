"""Compressed sparse rows (CSR) of an edge list, and its connected components.

The loops are compiled (:mod:`gpnn.csr_kernel`) and allocate no temporaries of the edge list's size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import torch
from torch import Tensor


class CSR(NamedTuple):
    """Edges grouped by row: row r owns positions `ptr[r]:ptr[r + 1]` of `index` and `edge`.

    Within a row the edges keep the order of the edge list.
    """

    ptr: np.ndarray  # [R + 1] int64
    index: np.ndarray  # type: ignore[assignment]  # [E] the other end of each edge; int32 where it fits
    edge: np.ndarray | None  # [E] position in the edge list; None when it was not requested


@overload
def pointers(counts: Tensor) -> Tensor: ...
@overload
def pointers(counts: np.ndarray | Sequence[int]) -> np.ndarray: ...
def pointers(counts: Tensor | np.ndarray | Sequence[int]) -> Tensor | np.ndarray:
    """Where each row begins, and the end of the last: int64, `[R + 1]`, from the rows' lengths `[R]`.

    A tensor gives a tensor on the same device, anything else a numpy array.

    >>> pointers(torch.tensor([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    if isinstance(counts, Tensor):
        return torch.cat([counts.new_zeros(1, dtype=torch.int64), counts.cumsum(0, dtype=torch.int64)])
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def row_entries(ptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """How many entries each of some rows has, `[w]`, and where they are, row by row, `[e]`; on the device of `ptr`.

    >>> counts, entries = row_entries(torch.tensor([0, 2, 2, 5]), torch.tensor([2, 0]))
    >>> counts.tolist(), entries.tolist()
    ([3, 2], [2, 3, 4, 0, 1])
    """
    begin = ptr[rows].long()
    counts = ptr[rows + 1].long() - begin
    shift = torch.repeat_interleave(begin - (counts.cumsum(0) - counts), counts)
    return counts, shift + torch.arange(len(shift), device=ptr.device)


def compress(rows: np.ndarray, columns: np.ndarray, num_rows: int, *, with_edge: bool = True) -> CSR:
    """Group the edges `(rows[e], columns[e])` by row.

    Args:
        rows: the grouping end of each edge, in `[0, num_rows)`, `[E]`.
        columns: the other end, `[E]`.
        num_rows: the number of rows R.
        with_edge: also return each entry's position in the edge list.

    >>> compress(np.array([1, 0, 1]), np.array([0, 1, 2]), 2).index.tolist()
    [1, 0, 2]
    """
    from gpnn.csr_kernel import count, place

    ptr = pointers(count(rows, num_rows))
    index = np.empty(len(rows), index_type(int(columns.max()) + 1 if len(columns) else 0))
    edge = np.empty(len(rows) if with_edge else 0, index_type(len(rows)))
    place(rows, columns, ptr[:-1].copy(), index, edge)
    return CSR(ptr, index, edge if with_edge else None)


def slices(count: int, size: int, start: int = 0) -> Iterator[slice]:
    """Consecutive ranges of at most `size` from `start` up to `count`.

    >>> list(slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    return (slice(first, min(first + size, count)) for first in range(start, count, size))


def transpose(ptr: np.ndarray, index: np.ndarray, num_columns: int, *, with_edge: bool = False) -> CSR:
    """The same entries grouped by column, each column's rows rising; `edge` is an entry's position by row.

    >>> transpose(np.array([0, 2, 3]), np.array([1, 0, 1]), 2).index.tolist()
    [0, 0, 1]
    """
    rows = np.repeat(np.arange(len(ptr) - 1, dtype=index_type(len(ptr) - 1)), np.diff(ptr))
    return compress(index, rows, num_columns, with_edge=with_edge)


def index_type(bound: int) -> type[np.signedinteger]:
    """The narrowest of int32 and int64 that holds every id below `bound`."""
    return np.int32 if bound <= np.iinfo(np.int32).max else np.int64


def connect(rows: np.ndarray, columns: np.ndarray, num_nodes: int) -> np.ndarray:
    """Label of each node's connected component, edges in both directions, numbered by their first node, `[N]`.

    >>> connect(np.array([3, 1]), np.array([1, 4]), 5).tolist()
    [0, 1, 2, 1, 1]
    """
    from gpnn.csr_kernel import join, label_roots

    return label_roots(join(rows, columns, np.arange(num_nodes)))
