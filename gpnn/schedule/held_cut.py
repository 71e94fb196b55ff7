"""The cut held: steps inside the subgraphs that do not wait for messages over the cut."""

from __future__ import annotations

from typing import Any

from gpnn.check import check_choice, check_count
from gpnn.graph import GraphLike, as_graph
from gpnn.partition import Partition
from gpnn.schedule.partitioned import VIRTUALS, as_partition, repeat_round
from gpnn.schedule.phase_spec import PhaseSpec, resolve_phases
from gpnn.schedule.schedule import Schedule


def held_cut(
    data: GraphLike, part: Partition | Any, rounds: int = 2, intra: int = 4, virtual: str | None = None
) -> Schedule:
    """`intra` steps per round, in which messages over the cut stay as they were at the start of the round.

    In each step every node aggregates the present states of its neighbours in its own subgraph and the states that its
    other neighbours had when the round began. A block Jacobi iteration, where :func:`partitioned` is block
    Gauss-Seidel. Every node updates once per step, a mean runs over a node's whole neighbourhood, and subgraphs need
    each other once per round. With `intra` 1, or with one subgraph, it is synchronous propagation of
    `rounds · intra` steps.

    Args:
        data: the graph, N nodes and E edges.
        part: a :class:`gpnn.Partition`, or the subgraph of each node, integers from 0, `[N]`.
        rounds: number of rounds T.
        intra: steps per round, T_S.
        virtual: None, "graph" or "subgraph": virtual nodes that nodes write to and read from at the end of each round,
            as in :func:`partitioned`.

    Raises:
        ValueError: when `part` does not label every node, a count is out of range, or a name is unknown.

    >>> from gpnn import Graph
    >>> chain = Graph([0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2], num_nodes=4)
    >>> held_cut(chain, [0, 0, 1, 1], rounds=2, intra=3).rounds[0]
    (Phase('held', edges=4, nodes=4, repeat=3, blocks=2, held=2),)
    """
    graph = as_graph(data)
    check_count("rounds", rounds, at_least=1)
    specs = held_cut_phases(intra)
    check_choice("virtual", virtual, VIRTUALS)
    parts = as_partition(part, graph.num_nodes)
    return repeat_round(graph, parts, resolve_phases(specs, graph, parts), rounds, virtual)


def held_cut_phases(intra: int = 4) -> tuple[PhaseSpec, ...]:
    """The one phase of a round."""
    check_count("intra", intra, at_least=1)
    return (PhaseSpec("held", intra),)
