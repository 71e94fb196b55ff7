"""Random walks and the pairs of nodes that meet in their windows."""

import numpy as np
from numba import njit

from gpnn.partition.kernels import below, shuffle


@njit(cache=True)
def draw_walks(ptr, index, starts, length, state):  # type: ignore[no-untyped-def]
    """A uniform random walk from each of `starts`, `[W, length]` int32; −1 behind a node without neighbours.

    Args:
        ptr, index: the neighbours of each node, CSR, `[N + 1]` and `[E]`.
        starts: `[W]`.
        length: nodes of a walk.
        state: the stream, advanced in place.
    """
    walks = np.full((len(starts), length), -1, np.int32)
    for walk in range(len(starts)):
        node = starts[walk]
        walks[walk, 0] = node
        for place in range(1, length):
            degree = ptr[node + 1] - ptr[node]
            if degree == 0:
                break
            node = index[ptr[node] + below(state, degree)]
            walks[walk, place] = node
    return walks


@njit(cache=True)
def draw_rounds(ptr, index, rounds, length, state):  # type: ignore[no-untyped-def]
    """`rounds` walks from every node, in a new random order each round, `[rounds · N, length]`."""
    num_nodes = len(ptr) - 1
    starts = np.empty(rounds * num_nodes, np.int64)
    for each in range(rounds):
        order = np.arange(num_nodes)
        shuffle(state, order, num_nodes)
        starts[each * num_nodes : (each + 1) * num_nodes] = order
    return draw_walks(ptr, index, starts, length, state)


@njit(cache=True)
def window_pairs(walks, window):  # type: ignore[no-untyped-def]
    """Every (node, context) at most `window` places apart in a walk, `[P, 2]` int64."""
    count = 0
    for turn in range(2):
        if turn == 1:
            pairs = np.empty((count, 2), np.int64)
            count = 0
        for walk in walks:
            for place in range(len(walk)):
                for other in range(max(0, place - window), min(len(walk), place + window + 1)):
                    if other == place or walk[place] < 0 or walk[other] < 0:
                        continue
                    if turn == 1:
                        pairs[count, 0], pairs[count, 1] = walk[place], walk[other]
                    count += 1
    return pairs
