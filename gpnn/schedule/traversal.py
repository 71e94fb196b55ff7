"""Compiled traversals: breadth-first order, longest-path levels, minimum spanning forest."""

import numpy as np
from numba import njit


@njit(cache=True)
def breadth_first(ptr, index, root):  # type: ignore[no-untyped-def]
    """Nodes in breadth-first order [N] and each one's parent [N], -1 where a traversal starts.

    The first traversal starts at `root`, each later one at the lowest node not yet visited. `ptr`, `index`:
    the out-neighbours as compressed rows; neighbours are visited in that order.
    """
    num_nodes = len(ptr) - 1
    visit = np.empty(num_nodes, np.int64)
    parent = np.full(num_nodes, -1, np.int64)
    seen = np.zeros(num_nodes, np.bool_)
    head, tail, start, lowest = 0, 0, root, 0
    while tail < num_nodes:
        visit[tail] = start
        seen[start] = True
        tail += 1
        while head < tail:
            node = visit[head]
            head += 1
            for at in range(ptr[node], ptr[node + 1]):
                child = index[at]
                if not seen[child]:
                    seen[child] = True
                    parent[child] = node
                    visit[tail] = child
                    tail += 1
        while lowest < num_nodes and seen[lowest]:
            lowest += 1
        start = lowest
    return visit, parent


@njit(cache=True)
def longest_path_levels(ptr, index, visit):  # type: ignore[no-untyped-def]
    """Length of the longest path into each node, [N], over the edges that follow the order `visit` [N]."""
    rank = np.empty(len(visit), np.int64)
    for at in range(len(visit)):
        rank[visit[at]] = at
    level = np.zeros(len(visit), np.int64)
    for node in visit:
        for at in range(ptr[node], ptr[node + 1]):
            child = index[at]
            if rank[child] > rank[node]:
                level[child] = max(level[child], level[node] + 1)
    return level


@njit(cache=True)
def spanning_forest(order, low, high, num_nodes):  # type: ignore[no-untyped-def]
    """Kruskal's algorithm: which pairs (low, high) [P] join two trees when taken in `order` [P]."""
    leader = np.arange(num_nodes)
    taken = np.zeros(len(order), np.bool_)
    for pair in order:
        a, b = low[pair], high[pair]
        while leader[a] != a:
            leader[a] = leader[leader[a]]  # path halving
            a = leader[a]
        while leader[b] != b:
            leader[b] = leader[leader[b]]
            b = leader[b]
        if a != b:
            leader[max(a, b)] = min(a, b)
            taken[pair] = True
    return taken


@njit(cache=True)
def depths(visit, parent):  # type: ignore[no-untyped-def]
    """Distance of each node from its traversal's start, [N]; `visit` has parents before children."""
    depth = np.zeros(len(visit), np.int64)
    for node in visit:
        if parent[node] >= 0:
            depth[node] = depth[parent[node]] + 1
    return depth
