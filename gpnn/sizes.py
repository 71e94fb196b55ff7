"""Sizes that follow the graph where they are "auto": subgraphs, rounds and hidden channels."""

from __future__ import annotations

import math
from typing import Protocol

GPU_NODES = 1 << 19  # of a subgraph that keeps a GPU busy for as long as the CPU takes to start its kernels


def choose_parts(num_nodes: int, *, on_gpu: bool = False) -> int:
    """K ≈ √N / 6, at least 2, so that the largest subgraph and the number of subgraphs grow alike.

    The released configurations take 5 to 20 for 2,708 to 19,717 nodes; this rule gives 9 to 23. On a GPU subgraphs of
    large graphs have half a million nodes.

    >>> choose_parts(2708), choose_parts(19717), choose_parts(1_000_000)
    (9, 23, 167)
    >>> choose_parts(111_059_956, on_gpu=True)
    212
    """
    parts = min(num_nodes, max(2, round(math.sqrt(num_nodes) / 6)))
    return min(parts, num_nodes // GPU_NODES + 1) if on_gpu and num_nodes > 8 * GPU_NODES else parts


class Sized(Protocol):
    """A graph, or the sizes of one of which a process holds a shard."""

    @property
    def num_nodes(self) -> int: ...

    @property
    def num_edges(self) -> int: ...


def choose_rounds(graph: Sized) -> int:
    """T = ⌈log N / log(1 + mean degree)⌉ between 2 and 5: steps that cross a random graph of this density.

    >>> from gpnn import Graph
    >>> choose_rounds(Graph([0, 1, 1, 2], [1, 0, 2, 1], num_nodes=3))
    2
    """
    branching = 1 + graph.num_edges / graph.num_nodes
    if branching <= 1:
        return 2
    return min(5, max(2, math.ceil(math.log(graph.num_nodes) / math.log(branching))))


def choose_hidden(num_classes: int) -> int:
    """The power of two next above 4·C, between 128 and 512.

    >>> choose_hidden(3), choose_hidden(10), choose_hidden(210)
    (128, 128, 512)
    """
    return min(512, max(128, 1 << (4 * num_classes - 1).bit_length()))
