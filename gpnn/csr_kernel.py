"""Compiled loops over an edge list or its rows: rows, connected components, core numbers, digest."""

import numpy as np
from numba import njit

from gpnn.graph.edges import MIX, RECEIVER, SENDER, TYPE, WEIGHT

_SENDER, _RECEIVER, _TYPE, _WEIGHT, _MIX = map(np.uint64, (SENDER, RECEIVER, TYPE, WEIGHT, MIX))


@njit(cache=True, nogil=True)
def count(rows, num_rows):  # type: ignore[no-untyped-def]
    """Number of edges of each row, `[R]`."""
    counts = np.zeros(num_rows, np.int64)
    for row in rows:
        counts[row] += 1
    return counts


@njit(cache=True, nogil=True)
def place(rows, columns, cursor, index, edge):  # type: ignore[no-untyped-def]
    """Write each edge's column, and its position unless `edge` is empty, at its row's `cursor` `[R]`; advance it."""
    for e in range(len(rows)):
        at = cursor[rows[e]]
        cursor[rows[e]] = at + 1
        index[at] = columns[e]
        if len(edge):
            edge[at] = e


@njit(cache=True, nogil=True)
def join(rows, columns, parent):  # type: ignore[no-untyped-def]
    """The parent of each node after union-find over all edges; a root is the first node of its set."""
    for e in range(len(rows)):
        unite(parent, rows[e], columns[e])
    return parent


@njit(cache=True, nogil=True)
def unite(parent, a, b):  # type: ignore[no-untyped-def]
    """Join the sets of two nodes, whose root is the first node of both; whether they were two."""
    while parent[a] != a:
        parent[a] = parent[parent[a]]  # path halving
        a = parent[a]
    while parent[b] != b:
        parent[b] = parent[parent[b]]
        b = parent[b]
    parent[max(a, b)] = min(a, b)
    return a != b


@njit(cache=True, nogil=True)
def label_roots(parent):  # type: ignore[no-untyped-def]
    """Replace each parent by the label of its root, in place; a parent comes before its children."""
    count = 0
    for node in range(len(parent)):
        if parent[node] == node:
            parent[node] = count
            count += 1
        else:
            parent[node] = parent[parent[node]]
    return parent


@njit(cache=True, nogil=True)
def peel(ptr, neighbour):  # type: ignore[no-untyped-def]
    """The core number of each node: nodes leave in order of the degree that is left (Batagelj and Zaversnik 2003).

    Rows `ptr`, `neighbour` have every edge in both directions, once, and no loop.
    """
    num = len(ptr) - 1
    degree = ptr[1:] - ptr[:-1]
    begin = np.zeros(num + 2, np.int64)  # of the nodes of each degree
    for node in range(num):
        begin[degree[node] + 1] += 1
    begin = np.cumsum(begin)
    order, position, cursor = np.empty(num, np.int64), np.empty(num, np.int64), begin.copy()
    for node in range(num):
        position[node] = cursor[degree[node]]
        order[position[node]] = node
        cursor[degree[node]] += 1
    for at in range(num):
        node = order[at]
        for edge in range(ptr[node], ptr[node + 1]):
            other = neighbour[edge]
            if degree[other] > degree[node]:  # it changes places with the first of its degree, which is one fewer
                first = begin[degree[other]]
                moved = order[first]
                order[first], order[position[other]] = other, moved
                position[moved], position[other] = position[other], first
                begin[degree[other]] += 1
                degree[other] -= 1
    return degree


@njit(cache=True, nogil=True)
def sum_hashes(start, src, dst, kind, weight):  # type: ignore[no-untyped-def]
    """The sum of the edges' hashes, and of the hashes times 2·(position) + 1, positions counted from `start`.

    Empty arrays stand for edges without types or weights.
    """
    edges, listed = np.uint64(0), np.uint64(0)
    for e in range(len(src)):
        hashed = np.uint64(src[e]) * _SENDER + np.uint64(dst[e]) * _RECEIVER
        if len(kind):
            hashed += np.uint64(kind[e]) * _TYPE
        if len(weight):
            hashed += np.uint64(weight[e]) * _WEIGHT
        hashed ^= hashed >> np.uint64(29)
        hashed *= _MIX
        hashed ^= hashed >> np.uint64(32)
        edges += hashed
        listed += hashed * np.uint64(2 * (start + e) + 1)
    return edges, listed
