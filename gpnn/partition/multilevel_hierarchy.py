"""Hierarchy: coarsen a graph, divide the coarsest by recursive bisection, and refine the parts on the way back."""

from __future__ import annotations

import numpy as np
from numba import njit

from gpnn.partition.kernels import below
from gpnn.partition.multilevel_cluster import cluster
from gpnn.partition.multilevel_level import Level, clear, loads, make_heap, pop, push, sample_cut
from gpnn.partition.multilevel_refine import fm_bisection, fm_refine, propagate_labels, rebalance

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


def coarsen(
    level: Level, num_parts: int, state: np.ndarray, parts: np.ndarray | None = None
) -> tuple[list[Level], list[np.ndarray]]:
    """The levels from the given one to the coarsest, and from each to the next the cluster of each node.

    With `parts`, the part of each node, `[n]`, no cluster has nodes of two parts.
    """
    levels: list[Level] = [level]
    names: list[np.ndarray] = []
    limit = (level.node_weight.sum(0, dtype=np.int64) * _LARGEST / num_parts).astype(np.int64)
    limit = np.maximum(limit, 1)
    while len(levels[-1].node_weight) > _COARSEST * num_parts:
        if parts is None:
            labels = cluster(levels[-1], limit, _CLUSTER_ROUNDS, state)
        else:
            labels = cluster(drop_cut(levels[-1], parts), limit, _CLUSTER_ROUNDS, state)
            labels = np.unique(labels.astype(np.int64) * num_parts + parts, return_inverse=True)[1].astype(np.int32)
        count = number(labels)
        if count > 0.9 * len(labels) or count < _FEWEST * num_parts:
            break
        levels.append(contract(levels[-1], labels, count))
        names.append(labels)
        parts = parts if parts is None else contract_parts(parts, labels, count)
    return levels, names


def refine_again(level: Level, labels: np.ndarray, cap: np.ndarray, state: np.ndarray) -> np.ndarray:
    """Part of each node after a V-cycle, `[n]`: parts are coarsened one by one, and refined on the way back.

    Args:
        level: the graph.
        labels: the part of each node, `[n]`.
        cap: the most that each part may weigh, `[K, C]`.
        state: the random stream.
    """
    levels, names = coarsen(level, len(cap), state, labels)
    for name, coarser in zip(names, levels[1:]):
        labels = contract_parts(labels, name, len(coarser.node_weight))
    return refine_levels(levels, names, labels.copy(), cap)


def contract_parts(parts: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """The part of each of `count` clusters, given that of each node and its cluster."""
    coarse = np.empty(count, np.int32)
    coarse[labels] = parts
    return coarse


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
    return refine_levels(levels, names, divide(levels[-1], cap, prefer, tries, state), cap)


def refine_levels(levels: list[Level], names: list[np.ndarray], labels: np.ndarray, cap: np.ndarray) -> np.ndarray:
    """Part of each node of the finest level, `[n]`, given that of each node of the coarsest; frees the levels."""
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
def drop_cut(level, parts):  # type: ignore[no-untyped-def]
    """The graph without its edges between parts."""
    ptr, index, edge_weight, node_weight = level
    new_ptr = np.zeros(len(parts) + 1, np.int64)
    new_index = np.empty(len(index), np.int32)
    new_weight = np.empty(len(edge_weight), np.int32)
    used = 0
    for node in range(len(parts)):
        for e in range(ptr[node], ptr[node + 1]):
            if parts[index[e]] == parts[node]:
                new_index[used] = index[e]
                if len(edge_weight):
                    new_weight[used] = edge_weight[e]
                used += 1
        new_ptr[node + 1] = used
    return Level(new_ptr, new_index[:used], new_weight[:used], node_weight)


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


_PASSES = 8
_DRAWS = np.int64(1 << 31)
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


def bisect(
    level: Level, cap: np.ndarray, target: np.int64, prefer: np.ndarray, tries: int, state: np.ndarray
) -> np.ndarray:
    """The best of `tries` bisections: grown from one node to weight `target`, then improved, `[n]`."""
    heap = make_heap(len(prefer))
    best, best_cut = np.zeros(len(prefer), np.int32), -1.0
    for _ in range(tries):  # in Python: compiled with all that it calls it would take longer than any of these
        labels = _grow(level, target, prefer, heap, state)
        load = loads(level.node_weight, labels, 2)
        rebalance(level, labels, load, cap, heap)
        fm_bisection(level, labels, load, cap, heap, _PASSES)
        excess = max((load - cap).max(), 0) / max(target, 1)
        value = sample_cut(level, labels, 1)[0] * (1 + _PENALTY * excess)
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
            other = np.int64(index[e])
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
    at = (below(state, _DRAWS) * (total if total else count)) >> 31
    for node in range(len(labels)):
        if labels[node] == 1:
            at -= prefer[node] if total else 1
            if at < 0:
                return node
    return np.int64(-1)
