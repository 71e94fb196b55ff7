"""Divide: the first partition, by recursive bisection of the coarsest graph."""

from __future__ import annotations

import numpy as np
from numba import njit

from gpnn.partition.kernels import below
from gpnn.partition.multilevel.level import Level, clear, cut, loads, make_heap, pop, push
from gpnn.partition.multilevel.rebalance import rebalance
from gpnn.partition.multilevel.refine import fm_bisection

_PASSES = 8
_PENALTY = 4.0  # for a side that is overweight by its whole target; finer levels can repair it


def divide(level: Level, cap: np.ndarray, prefer: np.ndarray, tries: int, state: np.ndarray) -> np.ndarray:
    """Part of each node, `[n]`.

    Args:
        level: the graph.
        cap: the most that each part may weigh, `[K, C]`.
        prefer: weight of each node in the draw of the nodes to grow from, `[n]`.
        tries: bisections to choose from.
        state: the random stream.
    """
    num_parts = len(cap)
    if num_parts == 1 or not len(prefer):
        return np.zeros(len(prefer), np.int32)
    half = num_parts // 2
    total = level.node_weight.sum(0, dtype=np.float64)
    slack = np.maximum(cap.sum(0) / np.maximum(total, 1), 1.0) ** (1 / np.ceil(np.log2(num_parts)))
    share = np.array([half, num_parts - half])[:, None] / num_parts
    side_cap = np.ceil(total * share * slack).astype(np.int64)
    side = bisect(level, side_cap, np.int64(total[0] * half / num_parts), prefer, tries, state)
    labels = np.empty(len(side), np.int32)
    for part, first, last in ((0, 0, half), (1, half, num_parts)):
        inner = extract(level, side == part)
        labels[side == part] = first + divide(inner, cap[first:last], prefer[side == part], tries, state)
    return labels


@njit(cache=True, nogil=True)
def bisect(level, cap, target, prefer, tries, state):  # type: ignore[no-untyped-def]
    """The better of `tries` bisections: grown from one node to weight `target`, then improved, `[n]`."""
    heap = make_heap(len(prefer))
    best, best_cut = np.zeros(len(prefer), np.int32), -1.0
    for _ in range(tries):
        labels = _grow(level, target, prefer, heap, state)
        load = loads(level.node_weight, labels, 2)
        rebalance(level, labels, load, cap, heap)
        fm_bisection(level, labels, load, cap, heap, _PASSES)
        excess = max((load - cap).max(), 0) / max(target, 1)
        value = cut(level, labels) * (1 + _PENALTY * excess)
        if best_cut < 0 or value < best_cut:
            best, best_cut = labels, value
    return best


@njit(cache=True, nogil=True)
def extract(level, chosen):  # type: ignore[no-untyped-def]
    """The graph that the chosen nodes induce."""
    ptr, index, edge_weight, node_weight = level
    name = np.cumsum(chosen) - 1
    new_ptr = np.zeros(chosen.sum() + 1, np.int64)
    new_index = np.empty(len(index), np.int32)
    new_weight = np.empty(len(edge_weight), np.int32)
    used = 0
    for node in range(len(chosen)):
        if not chosen[node]:
            continue
        for e in range(ptr[node], ptr[node + 1]):
            if chosen[index[e]]:
                new_index[used] = name[index[e]]
                if len(edge_weight):
                    new_weight[used] = edge_weight[e]
                used += 1
        new_ptr[name[node] + 1] = used
    return Level(new_ptr, new_index[:used].copy(), new_weight[:used].copy(), node_weight[chosen])


@njit(cache=True, nogil=True)
def _grow(level, target, prefer, heap, state):  # type: ignore[no-untyped-def]
    """Label 0 around a random node, best gain first, until it weighs `target`; the rest is 1."""
    ptr, index, edge_weight, node_weight = level
    labels = np.ones(len(prefer), np.int32)
    weight = np.int64(0)
    clear(heap)
    while weight < target:
        node = pop(heap) if heap.size[0] else _draw(prefer, labels, state)
        labels[node] = 0
        weight += node_weight[node, 0]
        for e in range(ptr[node], ptr[node + 1]):
            other = index[e]
            if labels[other] == 0:
                continue
            step = np.int64(edge_weight[e] if len(edge_weight) else 1)
            if heap.place[other] < 0:
                push(heap, other, _pull(level, labels, other))
            else:
                push(heap, other, heap.key[other] + 2 * step)
    clear(heap)
    return labels


@njit(cache=True, nogil=True)
def _pull(level, labels, node):  # type: ignore[no-untyped-def]
    """Edge weight to label 0 less that to label 1."""
    total = np.int64(0)
    for e in range(level.ptr[node], level.ptr[node + 1]):
        step = np.int64(level.edge_weight[e] if len(level.edge_weight) else 1)
        total += step if labels[level.neighbour[e]] == 0 else -step
    return total


@njit(cache=True, nogil=True)
def _draw(prefer, labels, state):  # type: ignore[no-untyped-def]
    """A node of label 1, drawn in proportion to `prefer`, or evenly where that is zero for all."""
    total, count = np.int64(0), np.int64(0)
    for node in range(len(labels)):
        if labels[node] == 1:
            total += prefer[node]
            count += 1
    at = (below(state, 1 << 31) * (total if total else count)) >> 31
    for node in range(len(labels)):
        if labels[node] == 1:
            at -= prefer[node] if total else 1
            if at < 0:
                return node
    return np.int64(-1)
