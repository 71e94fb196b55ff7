"""Hierarchy: coarsen a graph, divide the coarsest, and refine the parts on the way back."""

from __future__ import annotations

import numpy as np
from numba import njit

from gpnn.partition.multilevel.cluster import cluster
from gpnn.partition.multilevel.divide import divide
from gpnn.partition.multilevel.level import Level, loads, make_heap, sample_cut
from gpnn.partition.multilevel.rebalance import rebalance
from gpnn.partition.multilevel.refine import fm_refine, propagate_labels

_COARSEST = 40  # nodes per part at which coarsening stops
_FEWEST = 8  # nodes per part below which a level is too coarse to divide
_LARGEST = 0.5  # weight of the largest cluster over the mean part
_CLUSTER_ROUNDS = 2
_LABEL_ROUNDS = 5
_TRIES = 8  # bisections to choose from, and the entries that they may read together
_TRY_ENTRIES = 1_000_000
_FM_PASSES = 3
_FM_CUT = 0.05  # FM refines a level with a larger cut only when it has few nodes
_FM_NODES = 20_000
_FM_ENTRIES = 48  # per node on average: a move costs their square


def coarsen(level: Level, num_parts: int, state: np.ndarray) -> tuple[list[Level], list[np.ndarray]]:
    """The levels from the given one to the coarsest, and from each to the next the cluster of each node."""
    levels: list[Level] = [level]
    names: list[np.ndarray] = []
    limit = (level.node_weight.sum(0, dtype=np.int64) * _LARGEST / num_parts).astype(np.int64)
    limit = np.maximum(limit, 1)
    while len(levels[-1].node_weight) > _COARSEST * num_parts:
        labels = cluster(levels[-1], limit, _CLUSTER_ROUNDS, state)
        count = number(labels)
        if count > 0.9 * len(labels) or count < _FEWEST * num_parts:
            break
        levels.append(contract(levels[-1], labels, count))
        names.append(labels)
    return levels, names


def partition_levels(
    levels: list[Level], names: list[np.ndarray], cap: np.ndarray, prefer: np.ndarray, state: np.ndarray
) -> np.ndarray:
    """Part of each node of the finest level, `[n]`.

    Args:
        levels, names: the result of :func:`coarsen`; each level is freed after it is refined.
        cap: the most that each part may weigh, `[K, C]`.
        prefer: weight of each node of the coarsest level in the draw of seeds.
        state: the random stream.
    """
    tries = int(np.clip(_TRY_ENTRIES // max(len(levels[-1].neighbour), 1), 1, _TRIES))
    labels = divide(levels[-1], cap, prefer, tries, state)
    while True:
        improve(levels[-1], labels, cap)
        levels.pop()
        if not levels:
            return labels
        labels = labels[names.pop()]


def improve(level: Level, labels: np.ndarray, cap: np.ndarray) -> None:
    """Balance the parts, then lower their cut, in place."""
    num_nodes, num_entries = len(labels), max(len(level.neighbour), 1)
    load = loads(level.node_weight, labels, len(cap))
    heap = make_heap(num_nodes)
    rebalance(level, labels, load, cap, heap)
    propagate_labels(level, labels, load, cap, _LABEL_ROUNDS)
    if num_entries > _FM_ENTRIES * num_nodes:
        return
    between, total = sample_cut(level, labels, 1 + num_nodes // _FM_NODES)
    if num_nodes <= _FM_NODES or between < _FM_CUT * total:
        fm_refine(level, labels, load, cap, heap, _FM_PASSES, max(200, num_nodes // 100))


@njit(cache=True, nogil=True)
def number(labels):  # type: ignore[no-untyped-def]
    """Rename the clusters 0, 1, … in the order of their first nodes, in place; their number."""
    name = np.full(len(labels), -1, np.int32)
    count = 0
    for node in range(len(labels)):
        label = labels[node]
        if name[label] < 0:
            name[label] = count
            count += 1
        labels[node] = name[label]
    return count


@njit(cache=True, nogil=True)
def contract(level, labels, count):  # type: ignore[no-untyped-def]
    """The graph of the clusters: weights add up, edges inside a cluster vanish."""
    ptr, index, edge_weight, node_weight = level
    weighted = len(edge_weight) > 0
    start = np.zeros(count + 1, np.int64)
    for label in labels:
        start[label + 1] += 1
    for i in range(count):
        start[i + 1] += start[i]
    members = np.empty(len(labels), np.int32)
    for node in range(len(labels)):
        members[start[labels[node]]] = node
        start[labels[node]] += 1
    new_ptr = np.zeros(count + 1, np.int64)
    new_index = np.empty(len(index), np.int32)  # pages are allocated when touched; the rest is trimmed
    new_weight = np.empty(len(index), np.int32)
    new_node_weight = np.zeros((count, node_weight.shape[1]), np.int32)
    place = np.full(count, -1, np.int64)  # position of each neighbour in the row that is being written
    used = 0
    for i in range(count):
        row = used
        for position in range(start[i - 1] if i else 0, start[i]):
            node = members[position]
            for column in range(node_weight.shape[1]):
                new_node_weight[i, column] += node_weight[node, column]
            for e in range(ptr[node], ptr[node + 1]):
                other = labels[index[e]]
                if other == i:
                    continue
                if place[other] < row:
                    place[other] = used
                    new_index[used] = other
                    new_weight[used] = 0
                    used += 1
                new_weight[place[other]] += edge_weight[e] if weighted else np.int32(1)
        new_ptr[i + 1] = used
    return Level(new_ptr, new_index[:used], new_weight[:used], new_node_weight)
