"""The compiled kernel of extend."""

import numpy as np
from numba import njit


@njit(cache=True)
def join_neighbours(ptr, index, labels, queue, num_parts):  # type: ignore[no-untyped-def]
    """Label what labelled nodes reach, breadth first: each node by most of its neighbours of earlier levels.

    `labels` `[N]` holds -1 where a node has no part yet and is changed; `queue` `[N]` is scratch.
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
            labels[node] = -2 - _majority(ptr, index, labels, votes, node)  # not seen by its own level
        for at in range(head, end):
            node = queue[at]
            labels[node] = -2 - labels[node]
            for e in range(ptr[node], ptr[node + 1]):
                if not queued[index[e]]:
                    queue[tail] = index[e]
                    queued[index[e]] = True
                    tail += 1
        head = end


@njit(cache=True)
def _majority(ptr, index, labels, votes, node):  # type: ignore[no-untyped-def]
    """The most frequent label among a node's neighbours, the lowest of several; `votes` `[K]` is zero again after."""
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
