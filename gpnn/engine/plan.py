"""Plan: a schedule lowered to one device, ready to run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gpnn.engine.block import Block, BlockBuilder, Messages
from gpnn.engine.normalize import Normalizer, bind_rule
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.schedule import Phase, Schedule

CHUNK_ROWS = 65536  # receivers a chunk when a phase without blocks is streamed


@dataclass(frozen=True, eq=False)
class LoweredPhase:
    """A phase with its edges renumbered, weighted and compressed.

    `whole` is the phase as one block, for the fused runner; `blocks` are the pieces that the streamed runner takes
    one after the other. Each is built when first asked for.

    Attributes:
        kind: the phase's kind.
        repeat: how often it is done.
    """

    kind: str
    repeat: int
    _messages: Messages
    _edge_ptr: Tensor | None
    _node_ptr: Tensor | None
    _builder: BlockBuilder

    @cached_property
    def whole(self) -> Block:
        return self._builder.build(self._messages)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(self._builder.build(piece) for piece in self._pieces())

    @property
    def independent(self) -> bool:
        """Whether no block reads a row that another writes, so that each may finish all repeats before the next."""
        return self._edge_ptr is not None or len(self.blocks) == 1

    @property
    def nodes(self) -> Tensor:
        """Plan rows that update, `[n]`, in the order of `whole` and of the blocks one after the other."""
        return self._messages.nodes

    @cached_property
    def row_index(self) -> Tensor:
        """The same on the plan's device."""
        return self._messages.nodes.to(self._builder.device)

    def _pieces(self) -> Iterator[Messages]:
        if self._edge_ptr is not None and self._node_ptr is not None:
            edges, nodes = self._edge_ptr.tolist(), self._node_ptr.tolist()
            for block in range(len(nodes) - 1):
                if nodes[block + 1] > nodes[block]:
                    rows = slice(nodes[block], nodes[block + 1])
                    yield self._messages.select(rows, slice(edges[block], edges[block + 1]))
            return
        yield from self._chunks()

    def _chunks(self) -> Iterator[Messages]:
        """Receivers in runs of CHUNK_ROWS, each with the edges into it."""
        num_rows = self.nodes.numel()
        if num_rows <= CHUNK_ROWS:
            yield self._messages
            return
        position = torch.empty(int(self.nodes.max()) + 1, dtype=torch.int64)
        position[self.nodes] = torch.arange(num_rows)
        chunk = position[self._messages.dst].div(CHUNK_ROWS, rounding_mode="floor")
        order = chunk.argsort(stable=True)
        ends = torch.bincount(chunk, minlength=-(-num_rows // CHUNK_ROWS)).cumsum(0).tolist()
        for number, (start, stop) in enumerate(zip([0, *ends], ends)):
            rows = slice(number * CHUNK_ROWS, min((number + 1) * CHUNK_ROWS, num_rows))
            yield self._messages.select(rows, order[start:stop])


@dataclass(frozen=True, eq=False)
class Plan:
    """A :class:`~gpnn.schedule.Schedule` lowered to one device.

    States inside a plan stand in plan order: nodes grouped by subgraph, virtual nodes last. Everything that a user
    passes in or gets out is in the user's order; :meth:`enter` and :meth:`leave` turn one into the other.

    Attributes:
        schedule: what was lowered.
        rounds: the lowered phases of each round; rounds that are alike share them.
        order: user's node in each plan row, `[N + V]`, or None where the two orders agree.
        device: where the plan lives.
        normalization: the rule that weighed the messages.
    """

    schedule: Schedule
    rounds: tuple[tuple[LoweredPhase, ...], ...]
    order: Tensor | None
    device: torch.device
    normalization: str

    def __repr__(self) -> str:
        return f"Plan({self.schedule!r}, device={self.device}, normalization={self.normalization!r})"

    @property
    def num_nodes(self) -> int:
        """Number of the user's nodes N, virtual ones not counted."""
        return self.schedule.graph.num_nodes - self.schedule.num_virtual

    @property
    def num_virtual(self) -> int:
        return self.schedule.num_virtual

    @property
    def num_rounds(self) -> int:
        return self.schedule.num_rounds

    @property
    def num_edge_types(self) -> int:
        return self.schedule.graph.num_edge_types

    @property
    def num_messages(self) -> int:
        return self.schedule.num_messages

    @property
    def num_updates(self) -> int:
        return self.schedule.num_updates

    @cached_property
    def _place(self) -> Tensor | None:
        """Plan row of each of the user's nodes, `[N + V]`."""
        if self.order is None:
            return None
        place = torch.empty_like(self.order)
        place[self.order] = torch.arange(self.order.numel(), device=self.device)
        return place

    def enter(self, state: Tensor) -> Tensor:
        """A state in plan order, `[N + V, d]`, from one in the user's order, `[N, d]`; virtual nodes start at zero."""
        if state.shape[0] != self.num_nodes:
            raise ValueError(f"`state` must have one row for each of the {self.num_nodes} nodes. Got {state.shape[0]}.")
        if self.num_virtual:
            state = torch.cat([state, state.new_zeros(self.num_virtual, state.shape[1])])
        return state if self.order is None else state.index_select(0, self.order)

    def leave(self, state: Tensor) -> Tensor:
        """A state in the user's order, `[N, d]`, from one in plan order."""
        if self._place is None:
            return state[: self.num_nodes]
        return state.index_select(0, self._place[: self.num_nodes])


def lower(
    graph: GraphLike,
    schedule: Schedule,
    device: torch.device | str = "cpu",
    normalization: str = "phase",
    *,
    self_loops: bool = False,
) -> Plan:
    """Turn a schedule into the arrays that one device runs.

    Lower once and reuse: a plan does not depend on the model. Aggregation by "mean" uses the normalised weights;
    "sum", "max" and "min" use the graph's own.

    Args:
        graph: the graph that the schedule was made for.
        schedule: which messages travel when.
        device: where the plan lives.
        normalization: a rule of :mod:`gpnn.engine.normalize`: phase, graph, split, symmetric, ….
        self_loops: let every node also hear itself, as if it had a self-loop.

    Raises:
        ValueError: when the schedule was made for another graph, or the rule is unknown.

    >>> import gpnn
    >>> ring = gpnn.Graph([0, 1, 2], [1, 2, 0], num_nodes=3)
    >>> gpnn.lower(ring, gpnn.schedule.synchronous(ring, rounds=2)).num_messages
    6
    """
    _check_same(as_graph(graph), schedule)
    rule = bind_rule(normalization, schedule.graph, schedule.num_virtual, self_loops)
    order = _plan_order(schedule)
    place = _invert(order, schedule.graph.num_nodes)
    builder = BlockBuilder(schedule.graph.num_nodes, schedule.graph.num_edge_types, device)
    lowered = {id(phase): _lower_phase(phase, rule, place, builder) for phase in schedule.distinct_phases()}
    rounds = tuple(tuple(lowered[id(phase)] for phase in phases) for phases in schedule.rounds)
    order = None if order is None else order.to(device)
    return Plan(schedule, rounds, order, torch.device(device), normalization)


def _lower_phase(phase: Phase, rule: Normalizer, place: Tensor | None, builder: BlockBuilder) -> LoweredPhase:
    graph = rule.graph
    weight, diagonal = rule.phase_weights(phase.edges, phase.nodes)
    dtype = torch.float32 if graph.edge_weight is None else graph.edge_weight.dtype
    messages = Messages(
        _renumber(phase.nodes, place),
        _renumber(graph.src[phase.edges], place),
        _renumber(graph.dst[phase.edges], place),
        phase.edges,
        None if weight is None else weight.to(dtype),
        None if graph.edge_weight is None else graph.edge_weight[phase.edges],
        None if graph.num_edge_types == 1 or graph.edge_type is None else graph.edge_type[phase.edges],
        None if diagonal is None else diagonal.to(dtype),
    )
    return LoweredPhase(phase.kind, phase.repeat, messages, phase.edge_ptr, phase.node_ptr, builder)


def _plan_order(schedule: Schedule) -> Tensor | None:
    """The user's nodes grouped as the first phase with blocks groups them; None when that changes nothing."""
    blocked = next((phase for phase in schedule.distinct_phases() if phase.node_ptr is not None), None)
    if blocked is None:
        return None
    everything = torch.arange(schedule.graph.num_nodes)
    rest = torch.ones(schedule.graph.num_nodes, dtype=torch.bool)
    rest[blocked.nodes] = False
    order = torch.cat([blocked.nodes, everything[rest]])
    return None if torch.equal(order, everything) else order


def _invert(order: Tensor | None, num_nodes: int) -> Tensor | None:
    if order is None:
        return None
    place = torch.empty(num_nodes, dtype=torch.int64)
    place[order] = torch.arange(num_nodes)
    return place


def _renumber(nodes: Tensor, place: Tensor | None) -> Tensor:
    return nodes if place is None else place[nodes]


def _check_same(graph: Graph, schedule: Schedule) -> None:
    nodes = schedule.graph.num_nodes - schedule.num_virtual
    if graph.num_nodes != nodes:
        raise ValueError(f"The schedule was made for a graph of {nodes} nodes. Got one of {graph.num_nodes}.")
    if not schedule.num_virtual and graph.num_edges != schedule.graph.num_edges:
        edges = schedule.graph.num_edges
        raise ValueError(f"The schedule was made for a graph of {edges} edges. Got one of {graph.num_edges}.")
