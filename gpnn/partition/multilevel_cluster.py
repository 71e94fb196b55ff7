"""Cluster: size-constrained label propagation, the first half of coarsening."""

from typing import NamedTuple

import numpy as np
from numba import njit

from gpnn.partition.kernels import below

_SHORT = 24  # rows up to this long are counted in a list, longer ones in an array over all clusters
_BITS = 8
_SALTS = np.int64(1 << 31)
_CHUNK = 1 << _BITS  # nodes visited together: their rows lie together, and their labels are fetched together


class Scratch(NamedTuple):
    """Buffers that rounds reuse."""

    ahead: np.ndarray  # labels of the neighbours of a chunk's nodes
    near: np.ndarray  # clusters that one row leads to
    weight: np.ndarray  # and the edge weight that goes to each
    score: np.ndarray  # [n] edge weight to each cluster, zero between rows


@njit(cache=True, nogil=True)
def cluster(level, limit, rounds, state):  # type: ignore[no-untyped-def]
    """A cluster for each node, named by one of its nodes, `[n]`; none weighs more than `limit` `[C]`.

    In each round every node joins the cluster that most of its edge weight goes to, among those below the limit.
    Ties are broken by a random rank of the clusters, the same for all nodes of a round, so that a few
    clusters grow fast instead of all slowly. Chunks of nodes come in random order, and the nodes of a chunk
    in bit-reversed order, so that a label does not spread along a row of a grid. Nodes that stay alone then join
    others that favour the same full cluster.
    """
    num_nodes = len(level.node_weight)
    labels = np.arange(num_nodes).astype(np.int32)
    favourite = np.arange(num_nodes).astype(np.int32)
    load = level.node_weight.copy()
    scratch, order = _scratch(level.ptr), _bit_reversal()
    num_chunks = (num_nodes + _CHUNK - 1) // _CHUNK
    for _ in range(rounds):
        step, chunk = _coprime(num_chunks, state), below(state, num_chunks)
        salt = np.uint32(below(state, _SALTS))
        moved = 0
        for _ in range(num_chunks):
            chunk = (chunk + step) % num_chunks
            moved += _visit(level, labels, favourite, load, limit, chunk, order, salt, scratch)
        if moved * 50 < num_nodes:
            break
    _join_alone(labels, favourite, load, level.node_weight, limit)
    return labels


@njit(cache=True, nogil=True)
def _visit(level, labels, favourite, load, limit, chunk, order, salt, scratch):  # type: ignore[no-untyped-def]
    """Choose the clusters of the nodes of one chunk, in place; return how many moved."""
    ptr, index, edge_weight, node_weight = level
    ahead, near, weight, score = scratch
    start, stop = chunk * _CHUNK, min(len(labels), (chunk + 1) * _CHUNK)
    base, moved = ptr[start], 0
    for e in range(ptr[stop] - base):
        ahead[e] = labels[index[base + e]]
    for inner in order:
        node = start + inner
        if node >= stop:
            continue
        begin, end, own = ptr[node], ptr[node + 1], labels[node]
        for e in range(begin, end):
            if start <= index[e] < stop:  # it may have moved
                ahead[e - base] = labels[index[e]]
        row = ahead[begin - base : end - base]
        if len(row) <= _SHORT:
            found = _list_short(row, edge_weight[begin:end], own, near, weight)
        else:
            found = _list_long(row, edge_weight[begin:end], own, near, weight, score)
        favourite[node], best = _choose(near, weight, found, load, limit, node_weight, node, salt)
        if best != own:
            labels[node] = best
            moved += 1
            for column in range(node_weight.shape[1]):
                load[own, column] -= node_weight[node, column]
                load[best, column] += node_weight[node, column]
    return moved


@njit(cache=True, nogil=True)
def _list_short(row, edge_weight, own, near, weight):  # type: ignore[no-untyped-def]
    """List the clusters of a row in `near` (first the node's own) and their edge weights; how many."""
    near[0], weight[0] = own, 0
    found = 1
    for e in range(len(row)):
        value = edge_weight[e] if len(edge_weight) else np.int32(1)
        at = found
        for i in range(found):
            if near[i] == row[e]:
                at = i
        if at == found:
            near[at], weight[at] = row[e], value
            found += 1
        else:
            weight[at] += value
    return found


@njit(cache=True, nogil=True)
def _list_long(row, edge_weight, own, near, weight, score):  # type: ignore[no-untyped-def]
    """As `_list_short`; `score` is scratch for all clusters, zero before and after."""
    for e in range(len(row)):
        score[row[e]] += edge_weight[e] if len(edge_weight) else np.int32(1)
    near[0], weight[0] = own, score[own]
    score[own] = 0
    found = 1
    for label in row:
        if score[label]:
            near[found], weight[found] = label, score[label]
            score[label] = 0
            found += 1
    return found


@njit(cache=True, nogil=True)
def _choose(near, weight, found, load, limit, node_weight, node, salt):  # type: ignore[no-untyped-def]
    """The cluster of largest weight, and the one of largest weight, then rank, that can accept the node."""
    favourite, favourite_weight = near[0], weight[0]
    best, best_weight, best_rank = near[0], weight[0], np.uint32(0xFFFFFFFF)
    for i in range(1, found):
        if weight[i] > favourite_weight:
            favourite, favourite_weight = near[i], weight[i]
        if weight[i] >= best_weight:
            rank = _rank(near[i], salt)
            if (weight[i] > best_weight or rank > best_rank) and _fits_limit(load, limit, near[i], node_weight, node):
                best, best_weight, best_rank = near[i], weight[i], rank
    return favourite, best


@njit(cache=True, nogil=True)
def _join_alone(labels, favourite, load, node_weight, limit):  # type: ignore[no-untyped-def]
    """Merge single nodes that favour the same cluster (or none), as long as they fit."""
    num_nodes = len(labels)
    followed = np.zeros(num_nodes, np.bool_)
    for node in range(num_nodes):
        if labels[node] != node:
            followed[labels[node]] = True
    waiting = np.full(num_nodes + 1, -1, np.int32)  # single node that favours each cluster; last: none
    for node in range(num_nodes):
        if labels[node] != node or followed[node]:
            continue
        at = favourite[node] if favourite[node] != node else num_nodes
        host = waiting[at]
        if host >= 0 and _fits_limit(load, limit, host, node_weight, node):
            labels[node] = host
            for column in range(node_weight.shape[1]):
                load[host, column] += node_weight[node, column]
        else:
            waiting[at] = node


@njit(cache=True, nogil=True)
def _fits_limit(load, limit, label, node_weight, node):  # type: ignore[no-untyped-def]
    for column in range(node_weight.shape[1]):
        if load[label, column] + node_weight[node, column] > limit[column]:
            return False
    return True


@njit(cache=True, nogil=True)
def _rank(label, salt):  # type: ignore[no-untyped-def]
    """A pseudo-random rank of each cluster."""
    z = np.uint32(np.uint32(np.uint32(label) ^ salt) * np.uint32(0x85EBCA6B))
    return np.uint32(np.uint32(z ^ (z >> np.uint32(13))) * np.uint32(0xC2B2AE35))


@njit(cache=True, nogil=True)
def _scratch(ptr):  # type: ignore[no-untyped-def]
    num_nodes = len(ptr) - 1
    most_entries, longest = 0, _SHORT
    for start in range(0, num_nodes, _CHUNK):
        most_entries = max(most_entries, ptr[min(num_nodes, start + _CHUNK)] - ptr[start])
    for node in range(num_nodes):
        longest = max(longest, ptr[node + 1] - ptr[node])
    return Scratch(
        np.empty(most_entries, np.int32),
        np.empty(longest + 1, np.int32),
        np.empty(longest + 1, np.int32),
        np.zeros(num_nodes, np.int32),
    )


@njit(cache=True, nogil=True)
def _bit_reversal():  # type: ignore[no-untyped-def]
    """`range(_CHUNK)` in bit-reversed order, which separates neighbours."""
    order = np.zeros(_CHUNK, np.int64)
    for i in range(_CHUNK):
        for bit in range(_BITS):
            order[i] |= ((i >> bit) & 1) << (_BITS - 1 - bit)
    return order


@njit(cache=True, nogil=True)
def _coprime(bound, state):  # type: ignore[no-untyped-def]
    """A random step that visits all of `range(bound)`."""
    while True:
        step = 1 + below(state, bound)
        a, b = bound, step
        while b:
            a, b = b, a % b
        if a == 1:
            return step
