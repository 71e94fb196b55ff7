"""Refinement of a partition: label propagation, the local search of Fiduccia and Mattheyses (FM), and rebalancing."""

import numpy as np
from numba import njit

from gpnn.partition.multilevel_level import Heap, Level, can_spare, clear, fits, pop, push, shift

_FIRST = np.int64(0)  # column of weights from which on all are looked at


@njit(cache=True, nogil=True)
def propagate_labels(level, labels, load, cap, rounds):  # type: ignore[no-untyped-def]
    """Label propagation: move each node to the part that most of its edge weight goes to, if it fits, in place.

    Ties go to the lightest part. After the first round only nodes with a moved neighbour are visited.

    Args:
        level, labels, load, cap: the graph, its partition, the parts' weights and their bounds `[K, C]`.
        rounds: the most rounds; a round that moves less than a thousandth of the nodes is the last.
    """
    ptr, index, edge_weight, node_weight = level
    num_nodes = len(labels)
    score = np.zeros(len(load), np.int64)
    active = np.ones(num_nodes, np.bool_)
    for _ in range(rounds):
        moved = 0
        for node in range(num_nodes):
            if not active[node]:
                continue
            active[node] = False
            begin, end, own = ptr[node], ptr[node + 1], np.int64(labels[node])
            if _is_inside(index, labels, begin, end, own) or not can_spare(load, cap, own, node_weight, node):
                continue
            for e in range(begin, end):
                score[labels[index[e]]] += edge_weight[e] if len(edge_weight) else 1
            best, best_score, best_load = own, score[own], load[own, 0] - node_weight[node, 0]
            score[own] = 0
            for e in range(begin, end):
                part = np.int64(labels[index[e]])
                value = score[part]
                score[part] = 0
                if value < max(best_score, 1) or (value == best_score and load[part, 0] >= best_load):
                    continue
                if fits(load, cap, part, node_weight, node, _FIRST):
                    best, best_score, best_load = part, value, load[part, 0]
            if best != own:
                labels[node] = best
                shift(load, node_weight, node, own, best)
                moved += 1
                for e in range(begin, end):
                    active[index[e]] = True
        if moved * 1000 < num_nodes:
            break


@njit(cache=True, nogil=True)
def _is_inside(index, labels, begin, end, own):  # type: ignore[no-untyped-def]
    """Whether all neighbours of a row are in the part `own`."""
    for e in range(begin, end):  # noqa: SIM110
        if labels[index[e]] != own:
            return False
    return True


@njit(cache=True, nogil=True)
def fm_refine(level, labels, load, cap, heap, passes, patience):  # type: ignore[no-untyped-def]
    """FM refinement between all parts: move boundary nodes, best gain first; keep the best cut; in place.

    A node moves at most once per pass.

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
        _push_boundary(level, labels, load, cap, heap, score)
        count, kept, gained, best = 0, 0, np.int64(0), np.int64(0)
        while heap.size[0] and count - kept < patience:
            node = pop(heap)
            target, gain = best_move(level, labels, load, cap, score, node, _FIRST)
            own = np.int64(labels[node])
            if target < 0 or not can_spare(load, cap, own, level.node_weight, node):
                continue
            if gain < heap.key[node] and heap.size[0] and gain < heap.key[heap.node[0]]:
                push(heap, node, gain)  # its target part is full now
                continue
            moved[count], origin[count] = node, own
            count += 1
            locked[node] = True
            shift(load, level.node_weight, node, own, target)
            labels[node] = target
            gained += gain
            if gained > best:
                best, kept = gained, count
            _refresh(level, labels, load, cap, heap, score, locked, node)
        clear(heap)
        for i in range(count - 1, -1, -1):
            node = np.int64(moved[i])
            locked[node] = False
            if i >= kept:
                shift(load, level.node_weight, node, np.int64(labels[node]), np.int64(origin[i]))
                labels[node] = origin[i]
        if best == 0:
            break


@njit(cache=True, nogil=True)
def best_move(level, labels, load, cap, score, node, first):  # type: ignore[no-untyped-def]
    """The other part that accepts the node and that most edge weight goes to (-1: none), and what the cut would gain.

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
        part = np.int64(labels[index[e]])
        value = score[part]
        score[part] = 0
        if value < max(best, 1) or (value == best and load[part, 0] >= load[target, 0]):
            continue
        if fits(load, cap, part, node_weight, node, first):
            target, best = part, value
    return target, best - own_score


@njit(cache=True, nogil=True)
def _push_boundary(level, labels, load, cap, heap, score):  # type: ignore[no-untyped-def]
    """Push every node that can move to a neighbouring part."""
    ptr, index = level.ptr, level.neighbour
    for node in range(len(labels)):
        for e in range(ptr[node], ptr[node + 1]):
            if labels[index[e]] != labels[node]:
                target, gain = best_move(level, labels, load, cap, score, node, _FIRST)
                if target >= 0:
                    push(heap, node, gain)
                break


@njit(cache=True, nogil=True)
def _refresh(level, labels, load, cap, heap, score, locked, node):  # type: ignore[no-untyped-def]
    """Update the gains of the free neighbours of `node`."""
    for e in range(level.ptr[node], level.ptr[node + 1]):
        other = np.int64(level.neighbour[e])
        if not locked[other]:
            target, gain = best_move(level, labels, load, cap, score, other, _FIRST)
            if target >= 0:
                push(heap, other, gain)


_PATIENCE = 150  # moves without a new best after which a pass ends


@njit(cache=True, nogil=True)
def fm_bisection(level, labels, load, cap, heap, passes):  # type: ignore[no-untyped-def]
    """FM refinement of a bisection: move nodes, best gain first, each once per pass; keep the best cut; in place."""
    ptr, index, edge_weight, node_weight = level
    num_nodes = len(ptr) - 1
    gain = np.empty(num_nodes, np.int64)
    moved = np.empty(num_nodes, np.int32)
    locked = np.zeros(num_nodes, np.bool_)
    for _ in range(passes):
        _push_bisection(level, labels, gain, heap)
        count, kept, gained, best = 0, 0, np.int64(0), np.int64(0)
        while heap.size[0] and count - kept < _PATIENCE:
            node = pop(heap)
            locked[node] = True
            side = np.int64(labels[node])
            if not fits(load, cap, 1 - side, node_weight, node, _FIRST):
                continue
            shift(load, node_weight, node, side, 1 - side)
            labels[node] = 1 - side
            moved[count] = node
            count += 1
            gained += gain[node]
            if gained > best:
                best, kept = gained, count
            for e in range(ptr[node], ptr[node + 1]):
                other = np.int64(index[e])
                step = 2 * np.int64(edge_weight[e] if len(edge_weight) else 1)
                gain[other] += step if labels[other] == side else -step
                if not locked[other]:
                    push(heap, other, gain[other])
        clear(heap)
        locked[:] = False
        for i in range(kept, count):
            node = np.int64(moved[i])
            side = np.int64(labels[node])
            shift(load, node_weight, node, side, 1 - side)
            labels[node] = 1 - side
        if best == 0:
            break


@njit(cache=True, nogil=True)
def _push_bisection(level, labels, gain, heap):  # type: ignore[no-untyped-def]
    """Compute the gain of each node, `[n]`, and push the boundary nodes."""
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
            push(heap, node, gain[node])


def rebalance(level: Level, labels: np.ndarray, load: np.ndarray, cap: np.ndarray, heap: Heap) -> None:
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
        own = np.int64(labels[node])
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
            other = np.int64(level.neighbour[e])
            if heap.place[other] >= 0:
                _push_move(level, labels, load, cap, heap, score, other, column)
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
    free = np.int64(0)
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
