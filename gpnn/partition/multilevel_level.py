"""Level: one graph of the hierarchy; and the heap of nodes that local search uses.

The compiled loops of this folder pass nodes and parts to each other as int64, not as the int32 that arrays hold: a
function is compiled once for each combination of types that it is called with.
"""

from typing import NamedTuple

import numpy as np
from numba import njit


class Level(NamedTuple):
    """A symmetric graph without self-loops, as compressed rows; entries that repeat count as often.

    Node weights have one column per balance constraint: nodes or edges, and training labels.
    """

    ptr: np.ndarray  # [n + 1] int64
    neighbour: np.ndarray  # [m] int32
    edge_weight: np.ndarray  # [m] int32, or [0]: every entry weighs 1
    node_weight: np.ndarray  # [n, C] int32


@njit(cache=True, nogil=True)
def loads(node_weight, labels, num_parts):  # type: ignore[no-untyped-def]
    """The weight of each part, `[K, C]`."""
    load = np.zeros((num_parts, node_weight.shape[1]), np.int64)
    for node in range(len(labels)):
        for column in range(node_weight.shape[1]):
            load[labels[node], column] += node_weight[node, column]
    return load


@njit(cache=True, nogil=True)
def fits(load, cap, part, node_weight, node, first):  # type: ignore[no-untyped-def]
    """Whether `part` can accept `node` under `cap` `[K, C]`, from column `first` on."""
    for column in range(first, node_weight.shape[1]):
        weight = node_weight[node, column]
        if weight > 0 and load[part, column] + weight > cap[part, column]:
            return False
    return True


@njit(cache=True, nogil=True)
def can_spare(load, cap, part, node_weight, node):  # type: ignore[no-untyped-def]
    """Whether `part` keeps half of its bound without `node`: minimising the cut alone would empty some parts."""
    return 2 * (load[part, 0] - node_weight[node, 0]) >= cap[part, 0]


@njit(cache=True, nogil=True)
def shift(load, node_weight, node, source, target):  # type: ignore[no-untyped-def]
    """Update the weights of the parts for a node that moves from `source` to `target`."""
    for column in range(node_weight.shape[1]):
        load[source, column] -= node_weight[node, column]
        load[target, column] += node_weight[node, column]


@njit(cache=True, nogil=True)
def sample_cut(level, labels, step):  # type: ignore[no-untyped-def]
    """Weight of the entries between parts (every edge twice), and of all, in every `step`-th row."""
    ptr, index, edge_weight, _ = level
    between, total = np.int64(0), np.int64(0)
    for node in range(0, len(labels), step):
        for e in range(ptr[node], ptr[node + 1]):
            weight = np.int64(edge_weight[e] if len(edge_weight) else 1)
            total += weight
            if labels[index[e]] != labels[node]:
                between += weight
    return between, total


class Heap(NamedTuple):
    """Nodes `node[:size[0]]` in heap order; node u stands at `place[u]`, -1 when it is not in the heap."""

    node: np.ndarray  # [n] int32
    place: np.ndarray  # [n] int32
    key: np.ndarray  # [n] int64
    size: np.ndarray  # [1] int64


@njit(cache=True, nogil=True)
def make_heap(num_nodes):  # type: ignore[no-untyped-def]
    """An empty heap for the nodes below `num_nodes`."""
    return Heap(
        np.empty(num_nodes, np.int32),
        np.full(num_nodes, -1, np.int32),
        np.empty(num_nodes, np.int64),
        np.zeros(1, np.int64),
    )


@njit(cache=True, nogil=True)
def push(heap, node, key):  # type: ignore[no-untyped-def]
    """Insert `node`, or change its key."""
    at = np.int64(heap.place[node])
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


@njit(cache=True, nogil=True)
def pop(heap):  # type: ignore[no-untyped-def]
    """Remove and return the node of largest key."""
    top = np.int64(heap.node[0])
    remove(heap, top)
    return top


@njit(cache=True, nogil=True)
def remove(heap, node):  # type: ignore[no-untyped-def]
    """Remove `node`, if it is there."""
    at = np.int64(heap.place[node])
    if at < 0:
        return
    heap.place[node] = -1
    heap.size[0] -= 1
    if at == heap.size[0]:
        return
    last = np.int64(heap.node[heap.size[0]])
    _rise(heap, at, last)
    _sink(heap, np.int64(heap.place[last]), last)


@njit(cache=True, nogil=True)
def clear(heap):  # type: ignore[no-untyped-def]
    """Remove every node."""
    for at in range(heap.size[0]):
        heap.place[heap.node[at]] = -1
    heap.size[0] = 0


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
