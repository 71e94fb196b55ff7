"""The compiled kernels of neighbours."""

import numpy as np
from numba import njit


@njit(cache=True)
def survey(source, target):  # type: ignore[no-untyped-def]
    """Whether the reverse of every edge is there as often as the edge, and the number of self-loops."""
    difference = np.uint64(0)
    num_loops = 0
    for e in range(len(source)):
        difference += _hash(source[e], target[e]) - _hash(target[e], source[e])
        num_loops += source[e] == target[e]
    return difference == 0, num_loops


@njit(cache=True)
def _hash(first, second):  # type: ignore[no-untyped-def]
    z = np.uint64(first) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(second)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def count_both(source, target, ptr):  # type: ignore[no-untyped-def]
    """Add each edge to the counts of both its ends, one place on."""
    for e in range(len(source)):
        ptr[source[e] + 1] += 1
        ptr[target[e] + 1] += 1


@njit(cache=True)
def place_both(source, target, cursor, index):  # type: ignore[no-untyped-def]
    """Write each end of an edge into the row of the other."""
    for e in range(len(source)):
        u, v = source[e], target[e]
        index[cursor[u]] = v
        cursor[u] += 1
        index[cursor[v]] = u
        cursor[v] += 1


@njit(cache=True)
def drop_loops(ptr, index):  # type: ignore[no-untyped-def]
    """Remove entries of a row's own node, in place; how many are left."""
    used = 0
    begin = ptr[0]
    for node in range(len(ptr) - 1):
        end = ptr[node + 1]
        for e in range(begin, end):
            if index[e] != node:
                index[used] = index[e]
                used += 1
        begin = end
        ptr[node + 1] = used
    return used
