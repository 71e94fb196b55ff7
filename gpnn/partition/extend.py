"""Extend: the partition of a graph that has grown, in which the nodes known before keep their subgraph."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from gpnn.graph import Graph
from gpnn.partition.partition import Partition


def extend(graph: Graph, labels: np.ndarray, num_parts: int) -> Partition:
    """Keep the subgraph of known nodes; a new node joins the one that most of its known neighbours are in.

    New nodes are visited breadth first from the known ones: first those with a known neighbour, then the neighbours of
    these, and so on, directions aside. Ties go to the lowest number. Components without a known node, isolated nodes
    among them, join the smallest subgraph at that moment, the largest component first. Nothing is random.

    Args:
        graph: the graph.
        labels: subgraph of each node, -1 where it is new, integers `[N]`; they are not changed.
        num_parts: number of subgraphs K.

    >>> path = Graph([0, 1, 2], [1, 2, 3], num_nodes=5)
    >>> extend(path, np.array([0, 1, -1, -1, -1]), 2).labels.tolist()
    [0, 1, 1, 1, 0]
    """
    if labels.min() >= 0:
        return Partition(torch.from_numpy(labels), num_parts)
    from gpnn.partition.kernels import assign_components
    from gpnn.partition.neighbours import neighbours

    ptr, index = neighbours(graph)
    joined = labels.astype(np.int32)
    queue = np.empty(len(joined), np.int32)
    join_neighbours(ptr, index, joined, queue, num_parts)
    assign_components(ptr, index, joined, queue, num_parts)
    return Partition(torch.from_numpy(joined), num_parts)


@njit(cache=True, nogil=True)
def join_neighbours(ptr, index, labels, queue, num_parts):  # type: ignore[no-untyped-def]
    """Label what labelled nodes reach, breadth first: each node by most of its neighbours of earlier levels.

    `labels` `[N]` holds -1 where a node has no part and is changed; `queue` `[N]` is scratch.
    """
    queued = labels >= 0
    votes = np.zeros(num_parts, np.int64)
    tail = 0
    for node in range(len(labels)):
        if labels[node] < 0:
            for e in range(ptr[node], ptr[node + 1]):
                if labels[index[e]] >= 0:
                    queue[tail] = node
                    queued[node] = True
                    tail += 1
                    break
    head = 0
    while head < tail:
        end = tail
        for at in range(head, end):
            node = queue[at]
            labels[node] = -2 - _majority(ptr, index, labels, votes, node)  # not visible to its own level
        for at in range(head, end):
            node = queue[at]
            labels[node] = -2 - labels[node]
            for e in range(ptr[node], ptr[node + 1]):
                if not queued[index[e]]:
                    queue[tail] = index[e]
                    queued[index[e]] = True
                    tail += 1
        head = end


@njit(cache=True, nogil=True)
def _majority(ptr, index, labels, votes, node):  # type: ignore[no-untyped-def]
    """The most frequent label among the neighbours of `node`, the lowest of several; `votes` `[K]` stays zero."""
    best = -1
    for e in range(ptr[node], ptr[node + 1]):
        label = labels[index[e]]
        if label >= 0:
            votes[label] += 1
            if best < 0 or votes[label] > votes[best] or (votes[label] == votes[best] and label < best):
                best = label
    for e in range(ptr[node], ptr[node + 1]):
        if labels[index[e]] >= 0:
            votes[labels[index[e]]] = 0
    return best
