"""Exchange: local search between two parts (Fiduccia and Mattheyses)."""

import numpy as np
from numba import njit

from gpnn.partition.multilevel.heap import clear, put, take
from gpnn.partition.multilevel.level import fits, shift

_PATIENCE = 150  # moves without a new best after which a pass ends


@njit(cache=True)
def exchange(level, labels, load, cap, heap, passes):  # type: ignore[no-untyped-def]
    """Move nodes between parts 0 and 1 best gain first, each once a pass; keep the best cut met; in place."""
    ptr, index, edge_weight, node_weight = level
    num_nodes = len(ptr) - 1
    gain = np.empty(num_nodes, np.int64)
    moved = np.empty(num_nodes, np.int32)
    locked = np.zeros(num_nodes, np.bool_)
    for _ in range(passes):
        _fill(level, labels, gain, heap)
        count, kept, gained, best = 0, 0, np.int64(0), np.int64(0)
        while heap.size[0] and count - kept < _PATIENCE:
            node = take(heap)
            locked[node] = True
            side = labels[node]
            if not fits(load, cap, 1 - side, node_weight, node):
                continue
            shift(load, node_weight, node, side, 1 - side)
            labels[node] = 1 - side
            moved[count] = node
            count += 1
            gained += gain[node]
            if gained > best:
                best, kept = gained, count
            for e in range(ptr[node], ptr[node + 1]):
                other = index[e]
                step = 2 * np.int64(edge_weight[e] if len(edge_weight) else 1)
                gain[other] += step if labels[other] == side else -step
                if not locked[other]:
                    put(heap, other, gain[other])
        clear(heap)
        locked[:] = False
        for i in range(kept, count):
            node = moved[i]
            shift(load, node_weight, node, labels[node], 1 - labels[node])
            labels[node] = 1 - labels[node]
        if best == 0:
            break


@njit(cache=True)
def _fill(level, labels, gain, heap):  # type: ignore[no-untyped-def]
    """Every node's gain, `[n]`, and the nodes at the boundary in the heap."""
    ptr, index, edge_weight, _ = level
    for node in range(len(labels)):
        inside, outside = np.int64(0), np.int64(0)
        for e in range(ptr[node], ptr[node + 1]):
            step = np.int64(edge_weight[e] if len(edge_weight) else 1)
            if labels[index[e]] == labels[node]:
                inside += step
            else:
                outside += step
        gain[node] = outside - inside
        if outside:
            put(heap, node, gain[node])
