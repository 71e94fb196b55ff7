"""The compiled kernel of quality."""

import numpy as np
from numba import njit


@njit(cache=True)
def tally(ptr, index, labels, num_parts):  # type: ignore[no-untyped-def]
    """Per part `[K]`: edge ends, cut edges, halo rows; and the numbers of cut edges and of cut nodes."""
    num_nodes = len(ptr) - 1
    ends = np.zeros(num_parts, np.int64)
    crossing = np.zeros(num_parts, np.int64)
    halo = np.zeros(num_parts, np.int64)
    last = np.full(num_parts, -1, np.int64)  # the sender last counted in each part's halo
    touched = np.zeros(num_nodes, np.bool_)
    num_cut = 0
    for node in range(num_nodes):
        own = labels[node]
        ends[own] += ptr[node + 1] - ptr[node]
        for e in range(ptr[node], ptr[node + 1]):
            other = labels[index[e]]
            ends[other] += 1
            if other == own:
                continue
            num_cut += 1
            crossing[own] += 1
            crossing[other] += 1
            touched[node] = True
            touched[index[e]] = True
            if last[other] != node:
                last[other] = node
                halo[other] += 1
    return ends, crossing, halo, num_cut, touched.sum()
