"""A heap of nodes by key, largest first, in which any node's key can change."""

from typing import NamedTuple

import numpy as np
from numba import njit


class Heap(NamedTuple):
    """Nodes `node[:size[0]]` in heap order; node u stands at `place[u]`, -1 when it is not in the heap."""

    node: np.ndarray  # [n] int32
    place: np.ndarray  # [n] int32
    key: np.ndarray  # [n] int64
    size: np.ndarray  # [1] int64


@njit(cache=True)
def make_heap(num_nodes):  # type: ignore[no-untyped-def]
    """An empty heap for the nodes below `num_nodes`."""
    return Heap(
        np.empty(num_nodes, np.int32),
        np.full(num_nodes, -1, np.int32),
        np.empty(num_nodes, np.int64),
        np.zeros(1, np.int64),
    )


@njit(cache=True)
def put(heap, node, key):  # type: ignore[no-untyped-def]
    """Insert `node`, or change its key."""
    at = heap.place[node]
    if at < 0:
        at = heap.size[0]
        heap.size[0] += 1
        heap.key[node] = key
        _rise(heap, at, node)
    elif key > heap.key[node]:
        heap.key[node] = key
        _rise(heap, at, node)
    elif key < heap.key[node]:
        heap.key[node] = key
        _sink(heap, at, node)


@njit(cache=True)
def take(heap):  # type: ignore[no-untyped-def]
    """Remove and return the node of largest key."""
    top = heap.node[0]
    drop(heap, top)
    return top


@njit(cache=True)
def drop(heap, node):  # type: ignore[no-untyped-def]
    """Remove `node`, if it is there."""
    at = heap.place[node]
    if at < 0:
        return
    heap.place[node] = -1
    heap.size[0] -= 1
    if at == heap.size[0]:
        return
    last = heap.node[heap.size[0]]
    _rise(heap, at, last)
    _sink(heap, heap.place[last], last)


@njit(cache=True)
def clear(heap):  # type: ignore[no-untyped-def]
    """Remove every node."""
    for at in range(heap.size[0]):
        heap.place[heap.node[at]] = -1
    heap.size[0] = 0


@njit(cache=True)
def _rise(heap, at, node):  # type: ignore[no-untyped-def]
    while at > 0:
        up = (at - 1) >> 1
        other = heap.node[up]
        if heap.key[other] >= heap.key[node]:
            break
        heap.node[at] = other
        heap.place[other] = at
        at = up
    heap.node[at] = node
    heap.place[node] = at


@njit(cache=True)
def _sink(heap, at, node):  # type: ignore[no-untyped-def]
    size = heap.size[0]
    while 2 * at + 1 < size:
        down = 2 * at + 1
        if down + 1 < size and heap.key[heap.node[down + 1]] > heap.key[heap.node[down]]:
            down += 1
        other = heap.node[down]
        if heap.key[other] <= heap.key[node]:
            break
        heap.node[at] = other
        heap.place[other] = at
        at = down
    heap.node[at] = node
    heap.place[node] = at
