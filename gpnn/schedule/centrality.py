"""Nodes update in batches, the most central first."""

from __future__ import annotations

import numpy as np
import torch

from gpnn.check import check_choice, check_count
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.schedule.schedule import Schedule
from gpnn.schedule.sequential import level_phases

MEASURES = ("degree", "pagerank")


def centrality(data: GraphLike, rounds: int = 2, batches: int = 8, by: str = "pagerank") -> Schedule:
    """Per round every node updates once, in batches of equal size by falling centrality.

    A batch aggregates over all edges into it, so that later batches read what central nodes have just computed: a block
    Gauss-Seidel iteration in which hubs come first. Every edge carries one message per round. A node without an
    incoming edge does not update; one batch is synchronous propagation of the others.

    Args:
        data: the graph.
        rounds: number of rounds T.
        batches: phases per round; at most one for each node is used.
        by: "pagerank" (damping 0.85, messages along the edges) or "degree" (edges in and out).

    Raises:
        ValueError: when a count is out of range or the measure is unknown.

    >>> from gpnn import Graph
    >>> star = Graph([0, 0, 0], [1, 2, 3], num_nodes=4).to_undirected()
    >>> [phase.nodes.tolist() for phase in centrality(star, rounds=1, batches=4).rounds[0]]
    [[0], [1], [2], [3]]
    """
    graph = as_graph(data)
    check_count("rounds", rounds, at_least=1)
    check_count("batches", batches, at_least=1)
    check_choice("by", by, MEASURES)
    score = _pagerank(graph) if by == "pagerank" else (graph.in_degree + graph.out_degree).numpy()
    order = np.argsort(-score, kind="stable")
    batch = np.empty(graph.num_nodes, np.int64)
    batch[order] = np.arange(graph.num_nodes) * batches // graph.num_nodes
    phases = level_phases(np.arange(graph.num_edges), graph.dst.numpy(), batch, "batch")
    return Schedule(graph, (phases,) * rounds)


def _pagerank(graph: Graph, damping: float = 0.85, steps: int = 30) -> np.ndarray:
    """PageRank by power iteration, in ten digits so that ties do not depend on the order of a sum, `[N]`."""
    matrix = graph.to_scipy(weighted=False).T  # [receiver, sender]
    out_degree = graph.out_degree.to(torch.float64).numpy()
    share = np.divide(1, out_degree, out=np.zeros_like(out_degree), where=out_degree > 0)
    rank = np.full(graph.num_nodes, 1 / graph.num_nodes)
    for _ in range(steps):
        lost = rank[out_degree == 0].sum()
        rank = damping * (matrix @ (rank * share) + lost / graph.num_nodes) + (1 - damping) / graph.num_nodes
    return np.round(rank * graph.num_nodes, 10)
