"""Spread: nodes that no constraint weighs, and nodes for parts that have none."""

import numpy as np
from numba import njit


@njit(cache=True)
def deal_out(labels, weight, num_parts):  # type: ignore[no-untyped-def]
    """Give nodes without weight to the parts with the fewest nodes, so that sizes come out even; in place."""
    size = np.zeros(num_parts, np.int64)
    free = 0
    for node in range(len(labels)):
        if weight[node].any():
            size[labels[node]] += 1
        else:
            free += 1
    room = _shares(size, free)
    part = 0
    for node in range(len(labels)):
        if weight[node].any():
            continue
        while room[part] == 0:
            part += 1
        labels[node] = part
        room[part] -= 1


@njit(cache=True)
def fill_empty(labels, num_parts):  # type: ignore[no-untyped-def]
    """Give each empty part the last node of the part with the most nodes, in place."""
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


@njit(cache=True)
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
