"""Neighbours: symmetric CSR rows of a graph; and the partition of a graph that has grown, by neighbours."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from gpnn.csr import compress, index_type, pointers
from gpnn.csr_kernel import sum_hashes
from gpnn.graph import Graph
from gpnn.partition.partition import Partition


def neighbours(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Row pointers `[N + 1]` and neighbours `[M]` of the graph without its directions and self-loops.

    An entry stands for one message: a pair of nodes joined by several edges repeats. A graph that holds the
    reverse of each edge keeps its E entries; any other gets 2E, one in each direction. Equal sums of a hash
    over all edges and over all reverses show which (for an asymmetric graph they agree once in 2⁶⁴). A graph over rows
    gives its own arrays where it is symmetric and has no self-loops: they are not to be written to.
    """
    if graph.rows is not None:
        return _row_neighbours(graph)
    source, target = graph.src.numpy(), graph.dst.numpy()
    symmetric, num_loops = survey(source, target)
    if symmetric:
        ptr, index, _ = compress(source, target, graph.num_nodes, with_edge=False)
    else:
        ptr = np.zeros(graph.num_nodes + 1, np.int64)
        count_both(source, target, ptr)
        np.cumsum(ptr, out=ptr)
        index = np.empty(2 * len(source), index_type(graph.num_nodes))
        place_both(source, target, ptr[:-1].copy(), index)
    if num_loops:
        index = index[: drop_loops(ptr, index)]
    return ptr, index


def _row_neighbours(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    ptr, index, _ = graph.in_edges(with_edge=False)
    assert graph.rows is not None
    if not graph.rows.symmetric:
        joined = pointers((graph.in_degree + graph.out_degree).numpy())
        both = np.empty(2 * len(index), index_type(graph.num_nodes))
        place_row_ends(ptr, index, joined[:-1].copy(), both)
        return joined, both[: drop_loops(joined, both)]
    if not count_loops(ptr, index):
        return ptr, index
    ptr, index = ptr.copy(), index.copy()
    return ptr, index[: drop_loops(ptr, index)]


def distinct_neighbours(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row pointers `[N + 1]`, neighbours `[M]` in ascending order, and edges between the two `[M]`, int64.

    Directions and self-loops are ignored. Edges between the same two nodes become one that weighs their
    number, so that the weight between two parts is the number of messages.

    >>> rows = distinct_neighbours(Graph([0, 1, 1], [1, 0, 2], num_nodes=3))
    >>> [array.tolist() for array in rows]
    [[0, 1, 3, 4], [1, 0, 2, 1], [2, 2, 1, 1]]
    """
    from scipy.sparse import csr_array

    ptr, index = neighbours(graph)
    shape = (graph.num_nodes, graph.num_nodes)
    matrix = csr_array((np.ones(len(index), np.int64), index, ptr), shape)
    matrix.sum_duplicates()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data


def edge_ends(ptr: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Sum of the weights in each row, `[N]`."""
    total = pointers(weight)
    return total[ptr[1:]] - total[ptr[:-1]]


def survey(source: np.ndarray, target: np.ndarray) -> tuple[bool, int]:
    """Whether the reverse of every edge is there as often as the edge, and the number of self-loops."""
    none = source[:0]
    symmetric = sum_hashes(0, source, target, none, none)[0] == sum_hashes(0, target, source, none, none)[0]
    return bool(symmetric), int(np.count_nonzero(source == target))


@njit(cache=True, nogil=True)
def count_both(source, target, ptr):  # type: ignore[no-untyped-def]
    """Add each edge to the counts of both its ends, shifted by one."""
    for e in range(len(source)):
        ptr[source[e] + 1] += 1
        ptr[target[e] + 1] += 1


@njit(cache=True, nogil=True)
def place_both(source, target, cursor, index):  # type: ignore[no-untyped-def]
    """Write each end of an edge into the row of the other."""
    for e in range(len(source)):
        u, v = source[e], target[e]
        index[cursor[u]] = v
        cursor[u] += 1
        index[cursor[v]] = u
        cursor[v] += 1


@njit(cache=True, nogil=True)
def drop_loops(ptr, index):  # type: ignore[no-untyped-def]
    """Remove entries of a row's own node, in place; how many are left."""
    used = 0
    begin = ptr[0]
    for node in range(len(ptr) - 1):
        end = ptr[node + 1]
        for e in range(begin, end):
            if index[e] != node:
                index[used] = index[e]
                used += 1
        begin = end
        ptr[node + 1] = used
    return used


@njit(cache=True, nogil=True)
def count_loops(ptr, index):  # type: ignore[no-untyped-def]
    """How many entries are of their row's own node."""
    count = 0
    for node in range(len(ptr) - 1):
        for e in range(ptr[node], ptr[node + 1]):
            count += index[e] == node
    return count


@njit(cache=True, nogil=True)
def place_row_ends(ptr, index, cursor, out):  # type: ignore[no-untyped-def]
    """As `place_both`, of edges by receiver: row v has the senders `index[ptr[v]:ptr[v + 1]]`."""
    for v in range(len(ptr) - 1):
        for e in range(ptr[v], ptr[v + 1]):
            u = index[e]
            out[cursor[u]] = v
            cursor[u] += 1
            out[cursor[v]] = u
            cursor[v] += 1


@njit(cache=True, nogil=True)
def count_unanswered(ptr, sender, out_ptr, receiver):  # type: ignore[no-untyped-def]
    """How many distinct edges, loops aside, lack their reverse, given the rows of receivers and of senders."""
    count = 0
    for node in range(len(ptr) - 1):
        given = np.sort(receiver[out_ptr[node] : out_ptr[node + 1]])
        before, at = -1, 0
        for other in np.sort(sender[ptr[node] : ptr[node + 1]]):
            if other in (before, node):
                continue
            before = other
            while at < len(given) and given[at] < other:
                at += 1
            count += at == len(given) or given[at] != other
    return count


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
