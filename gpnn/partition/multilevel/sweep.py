"""Sweep: size-constrained label propagation between parts."""

import numpy as np
from numba import njit

from gpnn.partition.multilevel.level import can_spare, fits, shift


@njit(cache=True)
def sweep(level, labels, load, cap, rounds):  # type: ignore[no-untyped-def]
    """Move each node to the part that most of its edge weight goes to and that has room, in place.

    Among equals a node goes to the lightest part. After the first round only nodes with a moved neighbour
    are looked at again.

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
            begin, end, own = ptr[node], ptr[node + 1], labels[node]
            if _is_inside(index, labels, begin, end, own) or not can_spare(load, cap, own, node_weight, node):
                continue
            for e in range(begin, end):
                score[labels[index[e]]] += edge_weight[e] if len(edge_weight) else 1
            best, best_score, best_load = own, score[own], load[own, 0] - node_weight[node, 0]
            score[own] = 0
            for e in range(begin, end):
                part = labels[index[e]]
                value = score[part]
                score[part] = 0
                if value < max(best_score, 1) or (value == best_score and load[part, 0] >= best_load):
                    continue
                if fits(load, cap, part, node_weight, node):
                    best, best_score, best_load = part, value, load[part, 0]
            if best != own:
                labels[node] = best
                shift(load, node_weight, node, own, best)
                moved += 1
                for e in range(begin, end):
                    active[index[e]] = True
        if moved * 1000 < num_nodes:
            break


@njit(cache=True)
def _is_inside(index, labels, begin, end, own):  # type: ignore[no-untyped-def]
    """Whether all neighbours of a row are in the part `own`."""
    for e in range(begin, end):  # noqa: SIM110
        if labels[index[e]] != own:
            return False
    return True
