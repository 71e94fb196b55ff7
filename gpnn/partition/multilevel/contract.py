"""Contract: one node a cluster, the second half of coarsening."""

import numpy as np
from numba import njit

from gpnn.partition.multilevel.level import Level


@njit(cache=True)
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


@njit(cache=True)
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
    new_index = np.empty(len(index), np.int32)  # memory is taken as it is touched, and trimmed after
    new_weight = np.empty(len(index), np.int32)
    new_node_weight = np.zeros((count, node_weight.shape[1]), np.int32)
    place = np.full(count, -1, np.int64)  # where each neighbour stands in the row that is being written
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
