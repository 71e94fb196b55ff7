"""Extend: the partition of a graph that has grown, in which the nodes known before keep their subgraph."""

from __future__ import annotations

import numpy as np
import torch

from gpnn.graph import Graph
from gpnn.partition.partition import Partition


def extend(graph: Graph, labels: np.ndarray, num_parts: int) -> Partition:
    """Keep the subgraph of known nodes; a new node joins the one that most of its known neighbours are in.

    New nodes are taken breadth first from the known ones: first those with a known neighbour, then the neighbours of
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
    from gpnn.partition.extend_kernel import join_neighbours
    from gpnn.partition.flood_fill_kernel import spread
    from gpnn.partition.neighbours import neighbours

    ptr, index = neighbours(graph)
    joined = labels.astype(np.int32)
    queue = np.empty(len(joined), np.int32)
    join_neighbours(ptr, index, joined, queue, num_parts)
    spread(ptr, index, joined, queue, num_parts)
    return Partition(torch.from_numpy(joined), num_parts)
