"""Residual scheduling: a dry run decides which nodes update next."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch

from gpnn.check import check_count
from gpnn.graph import GraphLike, as_graph
from gpnn.schedule.schedule import Phase, Schedule

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
