"""Compiled loops over the rows of a propagation matrix: their largest entries, and features summed along them."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def keep_largest(ptr, sender, walks, least, columns, weights):  # type: ignore[no-untyped-def]
    """Fill `columns` and `weights`, `[N, k]`, with the largest entries of each row of Σₜ walks[t] Pᵗ.

    P is the mean over a node and its senders, `sender[ptr[v]:ptr[v + 1]]`. A walk that is at a node with a probability
    below `least` goes no further.
    """
    num_nodes = len(columns)
    now, following, total = np.zeros(num_nodes), np.zeros(num_nodes), np.zeros(num_nodes)
    at, to, seen = np.empty(num_nodes, np.int64), np.empty(num_nodes, np.int64), np.empty(num_nodes, np.int64)
    known = np.zeros(num_nodes, np.bool_)
    for row in range(num_nodes):
        at[0], now[row], num_at, num_seen = row, 1.0, 1, 0
        for step in range(len(walks)):
            num_to = 0
            for place in range(num_at):
                node = at[place]
                mass = now[node]
                now[node] = 0.0
                total[node] += walks[step] * mass
                if not known[node]:
                    known[node] = True
                    seen[num_seen] = node
                    num_seen += 1
                if mass < least or step + 1 == len(walks):
                    continue
                share = mass / (1 + ptr[node + 1] - ptr[node])
                for e in range(ptr[node] - 1, ptr[node + 1]):
                    other = sender[e] if e >= ptr[node] else node
                    if following[other] == 0.0:
                        to[num_to] = other
                        num_to += 1
                    following[other] += share
            now, following = following, now
            at, to, num_at = to, at, num_to
        _select(seen[:num_seen], total, columns[row], weights[row])
        for place in range(num_seen):
            total[seen[place]] = 0.0
            known[seen[place]] = False


@njit
def _select(seen, total, columns, weights):  # type: ignore[no-untyped-def]
    """The largest of the totals of the nodes `seen`, into `columns` and `weights`, `[k]`."""
    kept, count = len(columns), 0
    values = total[seen]
    bound = np.partition(values, len(values) - kept)[len(values) - kept] if len(values) > kept else 0.0
    for above in (True, False):  # those equal to the bound fill what is left
        for place in range(len(values)):
            if count < kept and (values[place] > bound if above else values[place] == bound and bound > 0):
                columns[count], weights[count] = seen[place], values[place]
                count += 1


@njit(cache=True, nogil=True)
def sum_features(columns, weights, ptr, index, value, out):  # type: ignore[no-untyped-def]
    """out[r] += Σ of weights[r, e] · x[columns[r, e]], x sparse rows; `[n, k]`, `[n, k]`, `[n, F]`."""
    for row in range(len(columns)):
        for e in range(columns.shape[1]):
            weight = weights[row, e]
            if weight:
                for at in range(ptr[columns[row, e]], ptr[columns[row, e] + 1]):
                    out[row, index[at]] += weight * value[at]


@njit(cache=True, nogil=True)
def count_features(columns, weights, ptr):  # type: ignore[no-untyped-def]
    """Entries of features along the entries of each row, `[n]`."""
    counts = np.zeros(len(columns), np.int64)
    for row in range(len(columns)):
        for e in range(columns.shape[1]):
            if weights[row, e]:
                counts[row] += ptr[columns[row, e] + 1] - ptr[columns[row, e]]
    return counts


@njit(cache=True, nogil=True)
def join_features(columns, weights, ptr, index, value, out_index, out_value):  # type: ignore[no-untyped-def]
    """What :func:`sum_features` adds up, one after the other, row by row."""
    to = 0
    for row in range(len(columns)):
        for e in range(columns.shape[1]):
            if weights[row, e]:
                for at in range(ptr[columns[row, e]], ptr[columns[row, e] + 1]):
                    out_index[to], out_value[to] = index[at], weights[row, e] * value[at]
                    to += 1
