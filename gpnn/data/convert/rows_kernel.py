"""Compiled loops over edges: scatter them into buckets of receivers; sort and merge the rows of a bucket."""

import numpy as np
from numba import njit

SHORT = 48  # entries of a row that insertion sorts as fast as anything


@njit(cache=True, nogil=True)
def count_buckets(rows, shift, counts):  # type: ignore[no-untyped-def]
    """Add the edges of each bucket of rows."""
    for row in rows:
        counts[row >> shift] += 1


@njit(cache=True, nogil=True)
def scatter(rows, columns, shift, cursor, out_column, out_row, out_edge):  # type: ignore[no-untyped-def]
    """Write each edge at its bucket's cursor: its column, its row within the bucket, and its number where wanted."""
    mask = (1 << shift) - 1
    for e in range(len(rows)):
        row = rows[e]
        at = cursor[row >> shift]
        cursor[row >> shift] = at + 1
        out_column[at] = columns[e]
        out_row[at] = row & mask
        if len(out_edge):
            out_edge[at] = e


@njit(cache=True, nogil=True)
def sort_rows(ptr, column):  # type: ignore[no-untyped-def]
    """Sort the columns of each row, in place."""
    for row in range(len(ptr) - 1):
        begin, end = ptr[row], ptr[row + 1]
        if end - begin > SHORT:
            column[begin:end] = np.sort(column[begin:end])
            continue
        for at in range(begin + 1, end):
            value, to = column[at], at
            while to > begin and column[to - 1] > value:
                column[to] = column[to - 1]
                to -= 1
            column[to] = value


@njit(cache=True, nogil=True)
def order_rows(ptr, key, order):  # type: ignore[no-untyped-def]
    """Sort the entries of each row by `key`, equal ones in their order: permutes `key` and `order`, in place."""
    for row in range(len(ptr) - 1):
        begin, end = ptr[row], ptr[row + 1]
        if end - begin > SHORT:
            chosen = np.argsort(key[begin:end], kind="mergesort")
            key[begin:end] = key[begin:end][chosen]
            order[begin:end] = order[begin:end][chosen]
            continue
        for at in range(begin + 1, end):
            value, number, to = key[at], order[at], at
            while to > begin and key[to - 1] > value:
                key[to], order[to] = key[to - 1], order[to - 1]
                to -= 1
            key[to], order[to] = value, number


@njit(cache=True, nogil=True)
def merge_rows(ptr, key, first):  # type: ignore[no-untyped-def]
    """Keep one of equal keys of a row: moves them to the front of `key`, in place, and `ptr` with them.

    `first` receives where each that was kept came from; the number kept is returned.
    """
    used, begin = 0, ptr[0]
    for row in range(len(ptr) - 1):
        end, start = ptr[row + 1], used
        for at in range(begin, end):
            if used > start and key[used - 1] == key[at]:
                continue
            key[used] = key[at]
            if len(first):
                first[used] = at
            used += 1
        begin = end
        ptr[row + 1] = used
    return used
