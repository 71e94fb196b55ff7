"""Rebalancing: move nodes out of overweight parts, assign isolated nodes, fill empty parts."""

import numpy as np
from numba import njit

from gpnn.partition.multilevel.level import clear, fits, pop, push, shift
from gpnn.partition.multilevel.refine import best_move


@njit(cache=True, nogil=True)
def rebalance(level, labels, load, cap, heap):  # type: ignore[no-untyped-def]
    """Bring every part under its bounds `cap` `[K, C]`, where moves of single nodes can, in place.

    The last column comes first and ignores the others: few nodes carry training labels, and nodes without
    labels repair the first column afterwards.
    """
    for column in range(cap.shape[1] - 1, -1, -1):
        if (load[:, column] > cap[:, column]).any():
            _rebalance_column(level, labels, load, cap, heap, column)


@njit(cache=True, nogil=True)
def _rebalance_column(level, labels, load, cap, heap, column):  # type: ignore[no-untyped-def]
    node_weight = level.node_weight
    score = np.zeros(len(load), np.int64)
    for node in range(len(labels)):
        if load[labels[node], column] > cap[labels[node], column]:
            _push_move(level, labels, load, cap, heap, score, node, column)
    while heap.size[0]:
        node = pop(heap)
        own = labels[node]
        if load[own, column] <= cap[own, column]:
            continue
        target, gain = _find_target(level, labels, load, cap, score, node, column)
        if target < 0:
            continue
        key = _key(gain, node_weight[node, column])
        if key < heap.key[node] and heap.size[0] and key < heap.key[heap.node[0]]:
            push(heap, node, key)  # its target part is full now
            continue
        shift(load, node_weight, node, own, target)
        labels[node] = target
        for e in range(level.ptr[node], level.ptr[node + 1]):
            if heap.place[level.neighbour[e]] >= 0:
                _push_move(level, labels, load, cap, heap, score, level.neighbour[e], column)
    clear(heap)


@njit(cache=True, nogil=True)
def _push_move(level, labels, load, cap, heap, score, node, column):  # type: ignore[no-untyped-def]
    """Push a node that has weight and a part to move to."""
    weight = level.node_weight[node, column]
    if weight > 0:
        target, gain = _find_target(level, labels, load, cap, score, node, column)
        if target >= 0:
            push(heap, node, _key(gain, weight))


@njit(cache=True, nogil=True)
def _key(gain, weight):  # type: ignore[no-untyped-def]
    """Order of moves: gain times weight, or loss per unit of weight."""
    return gain * weight if gain > 0 else gain * 1024 // weight


@njit(cache=True, nogil=True)
def _find_target(level, labels, load, cap, score, node, column):  # type: ignore[no-untyped-def]
    """The best move to a neighbouring part that accepts the node, else to the lightest part (-1: none); its gain."""
    target, gain = best_move(level, labels, load, cap, score, node, column)
    if target < 0:
        lightest = np.int64(np.argmin(load[:, column]))
        if lightest != labels[node] and fits(load, cap, lightest, level.node_weight, node, column):
            target = lightest
    return target, gain


@njit(cache=True, nogil=True)
def assign_isolated(labels, weight, num_parts):  # type: ignore[no-untyped-def]
    """Assign isolated nodes (without weight) to the parts with the fewest nodes, in place."""
    size = np.zeros(num_parts, np.int64)
    free = 0
    for node in range(len(labels)):
        if weight[node].any():
            size[labels[node]] += 1
        else:
            free += 1
    share = _shares(size, free)
    part = 0
    for node in range(len(labels)):
        if weight[node].any():
            continue
        while share[part] == 0:
            part += 1
        labels[node] = part
        share[part] -= 1


@njit(cache=True, nogil=True)
def fill_empty(labels, num_parts):  # type: ignore[no-untyped-def]
    """Move the last node of the largest part to each empty part, in place."""
    size = np.bincount(labels, minlength=num_parts)
    for part in range(num_parts):
        if size[part]:
            continue
        largest = np.argmax(size)
        for node in range(len(labels) - 1, -1, -1):
            if labels[node] == largest:
                labels[node] = part
                break
        size[largest] -= 1
        size[part] += 1


@njit(cache=True, nogil=True)
def _shares(size, free):  # type: ignore[no-untyped-def]
    """How many of `free` nodes each part gets for the largest size to be least, `[K]`."""
    order = np.argsort(size)
    share = np.zeros(len(size), np.int64)
    level, count = size[order[0]], 1
    while free:
        top = size[order[count]] if count < len(size) else level + free
        step = min(top - level, free // count)
        if step == 0 and top > level:
            break
        level += step
        free -= step * count
        while count < len(size) and size[order[count]] <= level:
            count += 1
    for i in range(count):
        share[order[i]] = level - size[order[i]] + (1 if i < free else 0)
    return share
