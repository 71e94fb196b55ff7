"""Climb: local search that may go downhill for a while (Fiduccia and Mattheyses, between all parts)."""

import numpy as np
from numba import njit

from gpnn.partition.multilevel.heap import clear, put, take
from gpnn.partition.multilevel.level import can_spare, fits, shift


@njit(cache=True)
def climb(level, labels, load, cap, heap, passes, patience):  # type: ignore[no-untyped-def]
    """Move boundary nodes best gain first, each once a pass, and go back to the best cut met; in place.

    Args:
        level, labels, load, cap: the graph, its partition, the parts' weights and their bounds `[K, C]`.
        heap: an empty heap for the level's nodes.
        passes: the most passes; one that gains nothing is the last.
        patience: moves without a new best after which a pass ends.
    """
    num_nodes = len(labels)
    score = np.zeros(len(load), np.int64)
    locked = np.zeros(num_nodes, np.bool_)
    moved = np.empty(num_nodes, np.int32)
    origin = np.empty(num_nodes, np.int32)
    for _ in range(passes):
        _fill(level, labels, load, cap, heap, score)
        count, kept, gained, best = 0, 0, np.int64(0), np.int64(0)
        while heap.size[0] and count - kept < patience:
            node = take(heap)
            target, gain = best_move(level, labels, load, cap, score, node)
            if target < 0 or not can_spare(load, cap, labels[node], level.node_weight, node):
                continue
            if gain < heap.key[node] and heap.size[0] and gain < heap.key[heap.node[0]]:
                put(heap, node, gain)  # there is no more room in the part it was meant for
                continue
            moved[count], origin[count] = node, labels[node]
            count += 1
            locked[node] = True
            shift(load, level.node_weight, node, labels[node], target)
            labels[node] = target
            gained += gain
            if gained > best:
                best, kept = gained, count
            _refresh(level, labels, load, cap, heap, score, locked, node)
        clear(heap)
        for i in range(count - 1, -1, -1):
            locked[moved[i]] = False
            if i >= kept:
                shift(load, level.node_weight, moved[i], labels[moved[i]], origin[i])
                labels[moved[i]] = origin[i]
        if best == 0:
            break


@njit(cache=True)
def best_move(level, labels, load, cap, score, node, first=0):  # type: ignore[no-untyped-def]
    """The other part with room that most edge weight goes to (-1: none), and what the cut would gain.

    Only the constraints from column `first` on count; `score` `[K]` is scratch, zero before and after.
    """
    ptr, index, edge_weight, node_weight = level
    own = labels[node]
    for e in range(ptr[node], ptr[node + 1]):
        score[labels[index[e]]] += edge_weight[e] if len(edge_weight) else 1
    target, best = np.int64(-1), np.int64(0)
    own_score = score[own]
    score[own] = 0
    for e in range(ptr[node], ptr[node + 1]):
        part = labels[index[e]]
        value = score[part]
        score[part] = 0
        if value < max(best, 1) or (value == best and load[part, 0] >= load[target, 0]):
            continue
        if fits(load, cap, part, node_weight, node, first):
            target, best = np.int64(part), value
    return target, best - own_score


@njit(cache=True)
def _fill(level, labels, load, cap, heap, score):  # type: ignore[no-untyped-def]
    """Put every node that can move to a neighbouring part into the heap."""
    ptr, index = level.ptr, level.neighbour
    for node in range(len(labels)):
        for e in range(ptr[node], ptr[node + 1]):
            if labels[index[e]] != labels[node]:
                target, gain = best_move(level, labels, load, cap, score, node)
                if target >= 0:
                    put(heap, node, gain)
                break


@njit(cache=True)
def _refresh(level, labels, load, cap, heap, score, locked, node):  # type: ignore[no-untyped-def]
    """Bring the gains of the node's free neighbours up to date."""
    for e in range(level.ptr[node], level.ptr[node + 1]):
        other = level.neighbour[e]
        if not locked[other]:
            target, gain = best_move(level, labels, load, cap, score, other)
            if target >= 0:
                put(heap, other, gain)
