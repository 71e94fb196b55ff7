"""Nodes in batches: by a dry run of residuals, or the most central first."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch

from gpnn.check import check_choice, check_count
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.schedule.schedule import Phase, Schedule
from gpnn.schedule.sequential import level_phases

_CHANNELS = 8  # of the dry run


def priority(data: GraphLike, rounds: int = 2, batches: int = 8, seed: int = 0) -> Schedule:
    """In each phase those nodes update whose state would change most.

    Residual belief propagation (Elidan et al. 2006), in batches and decided in advance: a dry run propagates eight
    random projections of the features, or random signals where the graph has no features, by
    h ← h / 2 + mean of the neighbours' / 2. A phase updates the N / `batches` nodes with the largest residual, over all
    edges into them. A round has `batches` phases and about as many updates as there are nodes; some nodes update
    several times in it, others not at all.

    Args:
        data: the graph, as a PyG `Data` with its features `x` if these shall decide.
        rounds: number of rounds T.
        batches: phases per round; at most one for each node is used.
        seed: of the projections.

    Raises:
        ValueError: when a count is out of range.

    >>> from gpnn import Graph
    >>> star = Graph([0, 0, 0], [1, 2, 3], num_nodes=4).to_undirected()
    >>> priority(star, rounds=2, batches=2)
    Schedule(rounds=2, phases=4, messages=8, updates=8)
    """
    graph = as_graph(data)
    check_count("rounds", rounds, at_least=1)
    check_count("batches", batches, at_least=1)
    state = _signals(data, graph.num_nodes, seed)
    dst = graph.dst.numpy()
    mean = _row_mean(graph.to_scipy(weighted=False).T)
    receives = np.diff(mean.indptr) > 0
    size = -(-int(receives.sum()) // batches)
    made = []
    for _ in range(rounds):
        phases = []
        for _ in range(min(batches, int(receives.sum()))):
            change = (mean @ state - state) / 2
            residual = np.where(receives, np.square(change).sum(1), -1.0)
            nodes = np.sort(np.argsort(-residual, kind="stable")[:size])
            state[nodes] += change[nodes]
            phases.append(_phase(nodes, dst, len(state)))
        made.append(tuple(phases))
    return Schedule(graph, tuple(made))


def _phase(nodes: np.ndarray, dst: np.ndarray, num_nodes: int) -> Phase:
    """The nodes update over all edges into them."""
    updates = np.zeros(num_nodes, np.bool_)
    updates[nodes] = True
    return Phase(torch.from_numpy(np.flatnonzero(updates[dst])), torch.from_numpy(nodes), kind="priority")


def _signals(data: GraphLike, num_nodes: int, seed: int) -> np.ndarray:
    """What the dry run propagates, `[N, 8]`."""
    random = np.random.default_rng(seed)
    x = data.get("x") if hasattr(data, "get") else None
    if x is None or not x.shape[-1]:
        return random.standard_normal((num_nodes, _CHANNELS))
    projection = torch.from_numpy(random.standard_normal((x.shape[1], _CHANNELS))).to(x.dtype)
    return (x.cpu() @ projection.cpu()).to_dense().double().numpy()


def _row_mean(matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    degree = np.maximum(np.asarray(matrix.sum(1)).ravel(), 1)
    return scipy.sparse.csr_matrix(scipy.sparse.diags(1 / degree) @ matrix)


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
