"""Compiled loop of the mesh: eccentricities in ego networks."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def local_eccentricity(ptr, index, length, hops):  # type: ignore[no-untyped-def]
    """For each node the largest length of a shortest route within its ego network of `hops` hops, `[N]`.

    `ptr`, `index`, `length`: the neighbours as compressed rows, and how long the edge to each is. Lengths are relaxed
    in breadth-first order until none shrinks.
    """
    num_nodes = len(ptr) - 1
    found = np.zeros(num_nodes)
    hop = np.full(num_nodes, -1, np.int64)
    route = np.full(num_nodes, np.inf)
    ball = np.empty(num_nodes, np.int64)
    for source in range(num_nodes):
        ball[0], hop[source], route[source] = source, 0, 0.0
        head, size = 0, 1
        while head < size:
            node = ball[head]
            head += 1
            for at in range(ptr[node], ptr[node + 1]):
                if hop[node] < hops and hop[index[at]] < 0:
                    hop[index[at]] = hop[node] + 1
                    ball[size] = index[at]
                    size += 1
        changed = True
        while changed:
            changed = False
            for node in ball[:size]:
                for at in range(ptr[node], ptr[node + 1]):
                    if hop[index[at]] >= 0 and route[node] + length[at] < route[index[at]]:
                        route[index[at]] = route[node] + length[at]
                        changed = True
        for node in ball[:size]:
            found[source] = max(found[source], route[node])
            hop[node], route[node] = -1, np.inf
    return found
