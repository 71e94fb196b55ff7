"""Compiled loops of the schedules: traversals, the check of a phase, one step of a broadcast."""

import numpy as np
from numba import njit

from gpnn.csr_kernel import unite


@njit(cache=True, nogil=True)
def breadth_first(ptr, index, root):  # type: ignore[no-untyped-def]
    """Nodes in breadth-first order [N] and each one's parent [N], -1 where a traversal starts.

    The first traversal starts at `root`, each later one at the lowest unvisited node. `ptr`, `index`:
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def spanning_forest(order, low, high, num_nodes):  # type: ignore[no-untyped-def]
    """Kruskal's algorithm: which pairs (low, high) [P] join two trees when added in `order` [P]."""
    leader = np.arange(num_nodes)
    used = np.zeros(len(order), np.bool_)
    for pair in order:
        used[pair] = unite(leader, low[pair], high[pair])
    return used


@njit(cache=True, nogil=True)
def depths(visit, parent):  # type: ignore[no-untyped-def]
    """Distance of each node from its traversal's start, [N]; `visit` has parents before children."""
    depth = np.zeros(len(visit), np.int64)
    for node in visit:
        if parent[node] >= 0:
            depth[node] = depth[parent[node]] + 1
    return depth


@njit(cache=True, nogil=True)
def distances(ptr, index, origins):  # type: ignore[no-untyped-def]
    """Edges on the shortest path from each node's nearest origin, [N]; every node must be reached from one."""
    distance = np.full(len(ptr) - 1, -1, np.int64)
    distance[origins] = 0
    queue = np.empty(len(distance), np.int64)
    tail = 0
    for node in origins:
        queue[tail] = node
        tail += 1
    head = 0
    while head < tail:
        node = queue[head]
        head += 1
        for at in range(ptr[node], ptr[node + 1]):
            if distance[index[at]] < 0:
                distance[index[at]] = distance[node] + 1
                queue[tail] = index[at]
                tail += 1
    return distance


REPEATED_NODE, MISSING_RECEIVER, CROSSING_EDGE = 1, 2, 3
UNTOUCHED = -1


@njit(cache=True, nogil=True)
def find_fault(src, dst, edges, nodes, edge_ptr, node_ptr, owner):  # type: ignore[no-untyped-def]
    """The first fault as (code, id of the node or edge), or (0, 0).

    `owner` [N] holds UNTOUCHED before and after. In between it is the block that writes a node (b), or the only
    block that reads a node that no block writes (−2 − b).
    """
    fault = (0, 0)
    for block in range(len(node_ptr) - 1):
        for at in range(node_ptr[block], node_ptr[block + 1]):
            if owner[nodes[at]] != UNTOUCHED and fault[0] == 0:
                fault = (REPEATED_NODE, nodes[at])
            owner[nodes[at]] = block
    for block in range(len(edge_ptr) - 1):
        for at in range(edge_ptr[block], edge_ptr[block + 1]):
            if fault[0]:
                break
            sender, receiver = owner[src[edges[at]]], owner[dst[edges[at]]]
            if receiver < 0:
                fault = (MISSING_RECEIVER, dst[edges[at]])
            elif receiver != block or (sender != block and sender != UNTOUCHED and sender != -2 - block):
                fault = (CROSSING_EDGE, edges[at])
            elif sender == UNTOUCHED:
                owner[src[edges[at]]] = -2 - block
    for node in nodes:
        owner[node] = UNTOUCHED
    for edge in edges:
        owner[src[edge]] = UNTOUCHED
    return fault


_ONE_IN_2 = np.uint64(0x5555555555555555)
_TWO_IN_4 = np.uint64(0x3333333333333333)
_FOUR_IN_8 = np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)
_S1, _S2, _S4, _S56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


@njit(cache=True, nogil=True)
def step(known, missing, fresh, receivers, ptr, senders, num_real):  # type: ignore[no-untyped-def]
    """Send one synchronous step; return how many (source, real node) pairs it added.

    `known` [N, W]: the sources that reached each node. `missing` [N]: how many more may reach it; a node that
    misses none is skipped. Receiver i gets messages from `senders[ptr[i]:ptr[i + 1]]`. `fresh` [n, W] is a buffer
    for the new rows: all messages of a step are sent before any is read. Nodes from `num_real` on are virtual.
    """
    for i in range(len(receivers)):
        if missing[receivers[i]] > 0:
            fresh[i] = known[receivers[i]]
            for at in range(ptr[i], ptr[i + 1]):
                sender = senders[at]
                for word in range(known.shape[1]):
                    fresh[i, word] |= known[sender, word]
    total = 0
    for i in range(len(receivers)):
        node = receivers[i]
        if missing[node] > 0:
            gained = 0
            for word in range(known.shape[1]):
                gained += _count_bits(fresh[i, word] ^ known[node, word])
                known[node, word] = fresh[i, word]
            missing[node] -= gained
            if node < num_real:
                total += gained
    return total


@njit(cache=True, nogil=True)
def _count_bits(word):  # type: ignore[no-untyped-def]
    if word == 0:
        return 0
    word = word - ((word >> _S1) & _ONE_IN_2)
    word = (word & _TWO_IN_4) + ((word >> _S2) & _TWO_IN_4)
    word = (word + (word >> _S4)) & _FOUR_IN_8
    return np.int64((word * _BYTES) >> _S56)


@njit(cache=True, nogil=True)
def count_crossing(ptr, col, labels, counts, roles):  # type: ignore[no-untyped-def]
    """Count the edges into each subgraph, `counts[0]` from inside and `counts[1]` over the cut; mark what nodes do.

    `counts[2]` counts the nodes elsewhere that have a neighbour in it. Bits of `roles`: 1 receives inside, 2 receives
    over the cut, 4 sends over the cut.
    """
    last = np.full(counts.shape[1], -1, np.int64)  # node that was last counted for each subgraph
    for node in range(len(ptr) - 1):
        part = labels[node]
        for e in range(ptr[node], ptr[node + 1]):
            other = labels[col[e]]
            if other == part:
                counts[0, part] += 1
                roles[node] |= 1
            else:
                counts[1, part] += 1
                roles[node] |= 2
                roles[col[e]] |= 4
                if last[other] != node:
                    last[other] = node
                    counts[2, other] += 1
