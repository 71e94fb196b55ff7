"""Propagation over a partition: steps inside the subgraphs alternate with steps over the cut, or hold its messages."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpnn.check import check_choice, check_count
from gpnn.csr import pointers
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.partition import Partition
from gpnn.schedule.phase_spec import UPDATES, AnyPhase, PhaseSpec, resolve_phases
from gpnn.schedule.schedule import Phase, Schedule

VIRTUALS = (None, "graph", "subgraph")
KINDS = ("inside", "cut", "gather", "scatter")  # of its phases, in the order of a round


def partitioned(
    data: GraphLike,
    part: Partition | Any,
    rounds: int = 5,
    intra: int = 1,
    cut: int = 1,
    update: str = "members",
    virtual: str | None = None,
) -> Schedule:
    """The paper's schedule (Algorithm 1): `intra` steps inside all subgraphs, then `cut` steps over the cut.

    Self-loops are inside edges. A phase that would neither send nor update anything is left out.

    Args:
        data: the graph, N nodes and E edges.
        part: a :class:`gpnn.Partition`, or the subgraph of each node, integers from 0, `[N]`.
        rounds: number of outer iterations T.
        intra: steps inside the subgraphs per round, T_S; may be 0.
        cut: steps over the cut edges per round, T_C; may be 0.
        update: which nodes update. "members": every node of a subgraph, and in the cut phase both ends of every cut
            edge (as in the authors' code). "receivers": only nodes that receive a message in the phase; then
            K = N with T_C = 1 is synchronous propagation for nodes with an in-edge from another node.
        virtual: None, or "graph": one virtual node that all nodes write to and read from at the end of each
            round (Gilmer et al.), or "subgraph": one such node per subgraph (the shared memory of Sect. 5).

    Raises:
        ValueError: when `part` does not label every node, a count is out of range, or a name is unknown.

    >>> from gpnn import Graph
    >>> chain = Graph([0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2], num_nodes=4)
    >>> partitioned(chain, [0, 0, 1, 1], rounds=2, intra=1, cut=1)
    Schedule(rounds=2, phases=4, messages=12, updates=12)
    """
    graph = as_graph(data)
    check_count("rounds", rounds, at_least=1)
    specs = partitioned_phases(intra, cut, update)
    check_choice("virtual", virtual, VIRTUALS)
    if not (specs or virtual):
        raise ValueError("One of `intra` and `cut` must be at least 1. Got 0 for both.")
    parts = as_partition(part, graph.num_nodes)
    return repeat_round(graph, parts, resolve_phases(specs, graph, parts), rounds, virtual)


def partitioned_phases(intra: int = 1, cut: int = 1, update: str = "members") -> tuple[PhaseSpec, ...]:
    """The phases of one round but those of virtual nodes; for the arguments see :func:`partitioned`.

    >>> [(phase.kind, phase.repeat) for phase in partitioned_phases(intra=2)]
    [('inside', 2), ('cut', 1)]
    """
    check_count("intra", intra, at_least=0)
    check_count("cut", cut, at_least=0)
    check_choice("update", update, UPDATES)
    inside = (PhaseSpec("inside", intra, update),) if intra else ()
    return inside + ((PhaseSpec("cut", cut, update, closing=True),) if cut else ())


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


def repeat_round(
    graph: Graph, parts: Partition, phases: tuple[AnyPhase, ...], rounds: int, virtual: str | None
) -> Schedule:
    """`rounds` rounds of these phases, each followed by the exchange with virtual nodes, where there are any."""
    if virtual is None:
        return Schedule(graph, (phases,) * rounds)
    augmented, exchange = add_virtual(graph, parts.order, parts.ptr if virtual == "subgraph" else None)
    listed = tuple(phase.listed for phase in phases)
    return Schedule(augmented, (listed + exchange,) * rounds, augmented.num_nodes - graph.num_nodes)


def as_partition(part: Any, num_nodes: int) -> Partition:
    """The partition, or the labels as one.

    Raises:
        ValueError: when it does not label every node.
    """
    if not isinstance(part, Partition):
        labels = torch.as_tensor(part)
        part = Partition(labels, int(labels.max()) + 1 if labels.numel() else 1)
    if part.num_nodes != num_nodes:
        raise ValueError(f"`part` must label each of the {num_nodes} nodes. Got {part.num_nodes} labels.")
    return part


def add_virtual(graph: Graph, order: Tensor, ptr: Tensor | None) -> tuple[Graph, tuple[Phase, Phase]]:
    """The graph with virtual nodes after its own, and the phases that write to and read from them.

    The edges to and from a virtual node have two types of their own, numbered after the graph's (an untyped
    graph's edges become type 0), and weight 1 where the graph has weights.

    Args:
        graph: N nodes, E edges.
        order: the nodes grouped by subgraph, `[N]`.
        ptr: where each subgraph begins in `order`, `[K + 1]`: one virtual node for each that is not empty,
            and block k of both phases is subgraph k. None: one virtual node for the whole graph, no blocks.
    """
    sizes = torch.tensor([graph.num_nodes]) if ptr is None else ptr.diff()
    filled = (sizes > 0).long()  # [K]
    memory = torch.repeat_interleave(graph.num_nodes + filled.cumsum(0) - filled, sizes)  # [N] along `order`
    num_virtual = int(filled.sum())
    augmented = _augment(graph, order, memory, num_virtual)
    first = graph.num_edges
    writes = torch.arange(first, first + graph.num_nodes)
    reads = writes + graph.num_nodes
    virtual = torch.arange(graph.num_nodes, graph.num_nodes + num_virtual)
    virtual_ptr = None if ptr is None else pointers(filled)
    gather = Phase(writes, virtual, 1, "gather", ptr, virtual_ptr, closing=True)
    return augmented, (gather, Phase(reads, order, 1, "scatter", ptr, ptr, closing=True))


def _augment(graph: Graph, order: Tensor, memory: Tensor, num_virtual: int) -> Graph:
    num_types, size = graph.num_edge_types, graph.num_nodes
    old_type = torch.zeros(graph.num_edges, dtype=torch.int64) if graph.edge_type is None else graph.edge_type
    new_type = torch.tensor([num_types, num_types + 1]).repeat_interleave(size)
    weight = graph.edge_weight
    return Graph(
        torch.cat([graph.src, order, memory]),
        torch.cat([graph.dst, memory, order]),
        size + num_virtual,
        torch.cat([old_type, new_type]),
        None if weight is None else torch.cat([weight, weight.new_ones(2 * size)]),
    )
