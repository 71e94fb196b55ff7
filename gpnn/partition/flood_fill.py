"""Flood fill: the paper's modified multi-seed flood fill (Algorithm 2)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.graph import Graph
from gpnn.partition.candidates import draw_seeds
from gpnn.partition.partition import Partition

LEFTOVER = ("smallest", "spread")


def flood_fill(
    graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None, leftover: str = "smallest"
) -> Partition:
    """Grow k subgraphs from seeds, one node per iteration, until none grows (Algorithm 2 of the paper).

    Seeds are drawn from the training nodes in proportion to out-degree. Each subgraph has a
    first-in-first-out queue; each iteration visits the subgraphs in a new random order, and each removes one
    node from its queue and claims that node's unclaimed children. Only subgraphs whose queue is not empty are
    permuted: an empty queue stays empty, and a random order of all subgraphs is a random order of those.

    Args:
        seed: of the seeds and the orders.
        train_nodes: ids of the candidates, `[C]`, or None: all nodes.
        leftover: what becomes of nodes that no seed reaches: "smallest" puts all of them into the subgraph
            that was smallest when growth stopped (the paper's rule); "spread" assigns their components,
            largest first, each to the smallest subgraph at that moment.

    Raises:
        ValueError: when k is above the number of candidates.

    >>> chain = Graph([0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2], num_nodes=4)
    >>> flood_fill(chain, 2, seed=3).sizes.sum().item()
    4
    """
    check_choice("leftover", leftover, LEFTOVER)
    from gpnn.partition.kernels import assign_components, assign_to_smallest, grow, stream

    generator = np.random.default_rng(seed)
    rows = graph.out_edges(with_edge=False)
    nodes = None if train_nodes is None else train_nodes.numpy()
    seeds = draw_seeds(rows.ptr, k, generator, nodes)
    labels, queue = grow(rows.ptr, rows.index, seeds, stream(seed))
    if leftover == "spread":
        assign_components(rows.ptr, rows.index, labels, queue, k)
    else:
        assign_to_smallest(labels, k)
    del rows, queue  # before the labels widen
    return Partition(torch.from_numpy(labels), k)
