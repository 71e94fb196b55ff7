"""Loops over an edge list: its compressed rows and its components, without temporaries of the list's size."""

from typing import NamedTuple

import numpy as np
from numba import njit


class CSR(NamedTuple):
    """Edges grouped by row: row r owns positions `ptr[r]:ptr[r + 1]` of `index` and `edge`.

    Within a row the edges keep the order of the edge list.
    """

    ptr: np.ndarray  # [R + 1] int64
    index: np.ndarray  # type: ignore[assignment]  # [E] the other end of each edge; int32 where it fits
    edge: np.ndarray | None  # [E] position in the edge list; None when it was not asked for


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
    ptr = np.zeros(num_rows + 1, np.int64)
    _count(rows, ptr)
    np.cumsum(ptr, out=ptr)
    index = np.empty(len(rows), index_type(int(columns.max()) + 1 if len(columns) else 0))
    edge = np.empty(len(rows) if with_edge else 0, index_type(len(rows)))
    _place(rows, columns, ptr[:-1].copy(), index, edge)
    return CSR(ptr, index, edge if with_edge else None)


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
    """Label of each node's connected component, edges taken both ways, numbered by their first node, `[N]`.

    >>> connect(np.array([3, 1]), np.array([1, 4]), 5).tolist()
    [0, 1, 2, 1, 1]
    """
    return _label_roots(_join(rows, columns, np.arange(num_nodes)))


@njit(cache=True)
def _join(rows, columns, parent):  # type: ignore[no-untyped-def]
    """Union-find with halved paths; the smaller root wins, so that a root is the first node of its set."""
    for e in range(len(rows)):
        a, b = rows[e], columns[e]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a < b:
            parent[b] = a
        else:
            parent[a] = b
    return parent


@njit(cache=True)
def _label_roots(parent):  # type: ignore[no-untyped-def]
    """Number the roots; a parent is smaller than its child, so that its label is known in time."""
    count = 0
    for node in range(len(parent)):
        if parent[node] == node:
            parent[node] = count
            count += 1
        else:
            parent[node] = parent[parent[node]]
    return parent


@njit(cache=True)
def _count(rows, ptr):  # type: ignore[no-untyped-def]
    for row in rows:
        ptr[row + 1] += 1


@njit(cache=True)
def _place(rows, columns, cursor, index, edge):  # type: ignore[no-untyped-def]
    for e in range(len(rows)):
        at = cursor[rows[e]]
        cursor[rows[e]] = at + 1
        index[at] = columns[e]
        if len(edge):
            edge[at] = e
