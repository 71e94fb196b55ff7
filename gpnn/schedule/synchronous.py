"""Synchronous propagation over all edges, or over a random share of them per round."""

from __future__ import annotations

import numpy as np
import torch

from gpnn.check import check_count
from gpnn.graph import GraphLike, as_graph
from gpnn.schedule.phase_spec import PhaseSpec, RowPhase
from gpnn.schedule.schedule import Phase, Schedule


def synchronous(data: GraphLike, rounds: int = 5) -> Schedule:
    """The schedule of ordinary graph neural networks: all edges, all nodes, `rounds` times (Sect. 3.1).

    Args:
        data: the graph, N nodes and E edges.
        rounds: number of steps T; 0: nothing is sent.

    Raises:
        ValueError: when `rounds` is not an integer of at least 0.

    >>> from gpnn import Graph
    >>> synchronous(Graph([0, 1, 1, 2], [1, 0, 2, 1], num_nodes=3), rounds=2)
    Schedule(rounds=2, phases=2, messages=8, updates=6)
    """
    graph = as_graph(data)
    check_count("rounds", rounds, at_least=0)
    (spec,) = synchronous_phases()
    if graph.rows is not None:
        return Schedule(graph, ((RowPhase(spec, graph),),) * rounds)
    everything = Phase(torch.arange(graph.num_edges), torch.arange(graph.num_nodes), spec.repeat, spec.kind)
    return Schedule(graph, ((everything,),) * rounds)


def synchronous_phases() -> tuple[PhaseSpec, ...]:
    """The one phase of a round."""
    return (PhaseSpec("all"),)


def random_edges(data: GraphLike, rounds: int = 5, seed: int = 0) -> Schedule:
    """The edges divided at random into `rounds` chunks of equal size; each round sends over one (appendix, Sect. A.5).

    Every edge carries exactly one message in the whole schedule, and a chunk's receivers update. With more
    rounds than edges the last rounds are empty.

    Args:
        data: the graph, N nodes and E edges.
        rounds: number of chunks T.
        seed: of the division.

    Raises:
        ValueError: when `rounds` is not a positive integer.

    >>> from gpnn import Graph
    >>> random_edges(Graph([0, 1, 1, 2], [1, 0, 2, 1], num_nodes=3), rounds=2).num_messages
    4
    """
    graph = as_graph(data)
    check_count("rounds", rounds, at_least=1)
    order = np.random.default_rng(seed).permutation(graph.num_edges)
    chunks = [torch.from_numpy(np.sort(chunk)) for chunk in np.array_split(order, rounds)]
    return Schedule(
        graph,
        tuple((Phase(edges, graph.dst[edges].unique(), kind="chunk"),) if len(edges) else () for edges in chunks),
    )
