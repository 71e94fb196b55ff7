"""Neighbours: the symmetric rows that partitioners which cut edges work on."""

from __future__ import annotations

import numpy as np

from gpnn.csr import compress, index_type
from gpnn.graph import Graph
from gpnn.partition.neighbours_kernel import count_both, drop_loops, place_both, survey


def neighbours(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Row pointers `[N + 1]` and neighbours `[M]` of the graph without its directions and self-loops.

    An entry stands for one message: a pair of nodes joined by several edges repeats. A graph that holds the
    reverse of each edge keeps its E entries; any other gets 2E, one in each direction. Equal sums of a hash
    over all edges and over all reverses tell which (they differ for an asymmetric graph but once in 2⁶⁴).
    """
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
