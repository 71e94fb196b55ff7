"""Distinct neighbours: the simple undirected graph that METIS, Mt-KaHyPar and spectral clustering need."""

from __future__ import annotations

import numpy as np

from gpnn.csr import pointers
from gpnn.graph import Graph


def distinct_neighbours(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row pointers `[N + 1]`, neighbours `[M]` in ascending order, and edges between the two `[M]`, int64.

    Directions and self-loops are dropped. Edges between the same two nodes become one that weighs their
    number, so that the weight between two parts is the number of messages.

    >>> rows = distinct_neighbours(Graph([0, 1, 1], [1, 0, 2], num_nodes=3))
    >>> [array.tolist() for array in rows]
    [[0, 1, 3, 4], [1, 0, 2, 1], [2, 2, 1, 1]]
    """
    from scipy.sparse import csr_array

    from gpnn.partition.neighbours import neighbours

    ptr, index = neighbours(graph)
    shape = (graph.num_nodes, graph.num_nodes)
    matrix = csr_array((np.ones(len(index), np.int64), index, ptr), shape)
    matrix.sum_duplicates()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data


def edge_ends(ptr: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Sum of the weights in each row, `[N]`."""
    total = pointers(weight)
    return total[ptr[1:]] - total[ptr[:-1]]
