"""Balance: move nodes out of parts that weigh too much, at the least cost in cut."""

import numpy as np
from numba import njit

from gpnn.partition.multilevel.climb import best_move
from gpnn.partition.multilevel.heap import clear, put, take
from gpnn.partition.multilevel.level import fits, shift


@njit(cache=True)
def balance(level, labels, load, cap, heap):  # type: ignore[no-untyped-def]
    """Bring every part under its bounds `cap` `[K, C]`, where moves of single nodes can, in place.

    The last column comes first and does not look at the others: few nodes carry training labels, and what
    they displace is made good by nodes that carry none.
    """
    for column in range(cap.shape[1] - 1, -1, -1):
        if (load[:, column] > cap[:, column]).any():
            _relieve(level, labels, load, cap, heap, column)


@njit(cache=True)
def _relieve(level, labels, load, cap, heap, column):  # type: ignore[no-untyped-def]
    node_weight = level.node_weight
    score = np.zeros(len(load), np.int64)
    for node in range(len(labels)):
        if load[labels[node], column] > cap[labels[node], column]:
            _offer(level, labels, load, cap, heap, score, node, column)
    while heap.size[0]:
        node = take(heap)
        own = labels[node]
        if load[own, column] <= cap[own, column]:
            continue
        target, gain = _way_out(level, labels, load, cap, score, node, column)
        if target < 0:
            continue
        key = _key(gain, node_weight[node, column])
        if key < heap.key[node] and heap.size[0] and key < heap.key[heap.node[0]]:
            put(heap, node, key)  # there is no more room in the part it was meant for
            continue
        shift(load, node_weight, node, own, target)
        labels[node] = target
        for e in range(level.ptr[node], level.ptr[node + 1]):
            if heap.place[level.neighbour[e]] >= 0:
                _offer(level, labels, load, cap, heap, score, level.neighbour[e], column)
    clear(heap)


@njit(cache=True)
def _offer(level, labels, load, cap, heap, score, node, column):  # type: ignore[no-untyped-def]
    """Put a node that weighs something and has somewhere to go into the heap."""
    weight = level.node_weight[node, column]
    if weight > 0:
        target, gain = _way_out(level, labels, load, cap, score, node, column)
        if target >= 0:
            put(heap, node, _key(gain, weight))


@njit(cache=True)
def _key(gain, weight):  # type: ignore[no-untyped-def]
    """Order of moves: gain, and loss a unit of weight."""
    return gain * weight if gain > 0 else gain * 1024 // weight


@njit(cache=True)
def _way_out(level, labels, load, cap, score, node, column):  # type: ignore[no-untyped-def]
    """The best move to a neighbouring part with room, else to the lightest part (-1: none), and its gain."""
    target, gain = best_move(level, labels, load, cap, score, node, column)
    if target < 0:
        lightest = np.int64(np.argmin(load[:, column]))
        if lightest != labels[node] and fits(load, cap, lightest, level.node_weight, node, column):
            target = lightest
    return target, gain
