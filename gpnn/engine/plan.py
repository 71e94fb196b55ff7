"""Plan: a schedule lowered to one device, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from gpnn.engine.block import BlockBuilder
from gpnn.engine.built_phase import BuiltPhase
from gpnn.engine.lowered_phase import LoweredPhase
from gpnn.engine.normalize import bind_rule
from gpnn.engine.rows import permute_rows
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.schedule import Schedule

if TYPE_CHECKING:
    from gpnn.engine.sharded import Ownership

AnyPhase: TypeAlias = LoweredPhase | BuiltPhase

CHUNK_ROWS, MIN_CHUNK_ROWS = 65536, 4096


@dataclass(frozen=True, eq=False)
class Plan:
    """A :class:`~gpnn.schedule.Schedule` lowered to one device.

    States inside a plan stand in plan order: nodes grouped by subgraph, virtual nodes last. Everything that a user
    passes in or gets out is in the user's order; :meth:`enter` and :meth:`leave` turn one into the other.

    Attributes:
        rounds: the lowered phases of each round; rounds that are alike share them.
        order: user's node in each plan row, `[N + V]`, or None where the two orders agree.
        device: where the plan lives.
        normalization: the rule that weighed the messages.
        num_nodes: number of the user's nodes N, virtual ones not counted.
        num_virtual: number of virtual nodes V.
        num_edge_types: number of edge types, those of virtual nodes included.
        source: what was lowered, or None where the plan was built and holds its arrays alone.
    """

    rounds: tuple[tuple[AnyPhase, ...], ...]
    order: Tensor | None
    device: torch.device
    normalization: str
    num_nodes: int
    num_virtual: int
    num_edge_types: int
    source: Schedule | None

    def __repr__(self) -> str:
        what = f"{self.num_nodes} nodes, {self.num_rounds} rounds" if self.source is None else repr(self.source)
        return f"{type(self).__name__}({what}, device={self.device}, normalization={self.normalization!r})"

    @property
    def schedule(self) -> Schedule:
        """What was lowered.

        Raises:
            ValueError: where the plan was built and let go of it.
        """
        if self.source is None:
            raise ValueError("A plan that was built holds no schedule. Ask the plan that `lower` gave.")
        return self.source

    @property
    def num_rounds(self) -> int:
        return len(self.rounds)

    def distinct_phases(self) -> tuple[AnyPhase, ...]:
        """Each lowered phase once, in order of first use."""
        return tuple(dict.fromkeys(phase for phases in self.rounds for phase in phases))

    def build(self, runner: str = "fused") -> Plan:
        """The plan with all that a runner takes built now, and nothing held besides: neither schedule nor graph.

        Running needs no edge list. Who keeps neither the graph nor the plan that `lower` gave frees 28 bytes an edge:
        16 of the graph, 8 of the schedule and 4 of edge ids. What is left takes 8, or 4 where the graph is undirected
        and has no weights. Such a plan runs all that does not ask for its :attr:`schedule` or for edge ids, as reports
        and convolutions with `edge_attr` do.

        Args:
            runner: "fused", whose plan the streamed runner takes too, as one block, or "streamed".

        Raises:
            ValueError: when the runner is unknown, or several processes share the plan.

        >>> import gpnn
        >>> ring = gpnn.Graph([0, 1, 2], [1, 2, 0], num_nodes=3)
        >>> gpnn.lower(ring, gpnn.schedule.synchronous(ring, rounds=2)).build()
        Plan(3 nodes, 2 rounds, device=cpu, normalization='phase')
        """
        if runner not in ("fused", "streamed"):
            raise ValueError(f"`runner` must be one of fused, streamed. Got {runner!r}.")
        if self.runners is not None:
            raise ValueError("A plan that several processes share cannot be built apart from its schedule.")
        built: dict[AnyPhase, BuiltPhase] = {phase: phase.build(runner) for phase in self.distinct_phases()}
        rounds = tuple(tuple(built[phase] for phase in phases) for phases in self.rounds)
        return replace(self, rounds=rounds, source=None)

    @property
    def runners(self) -> Mapping[str, Callable[..., list[Tensor]]] | None:
        """The runners that the plan was lowered for, by name; None: those of one process."""
        return None

    @property
    def nodes(self) -> Tensor | None:
        """The user's node in each row of features and results, `[N]`; None where row i is node i."""
        return None

    @property
    def num_messages(self) -> int:
        """Messages sent in all rounds, all phases, all repeats."""
        return sum(phase.repeat * phase.num_edges for phases in self.rounds for phase in phases)

    @property
    def num_updates(self) -> int:
        """Node updates done in all rounds, all phases, all repeats."""
        return sum(phase.repeat * phase.num_rows for phases in self.rounds for phase in phases)

    @cached_property
    def _place(self) -> Tensor:
        """Plan row of each of the user's nodes, `[N + V]`."""
        assert self.order is not None
        place = torch.empty_like(self.order)
        place[self.order] = torch.arange(self.order.numel(), device=self.device)
        return place

    def enter(self, state: Tensor) -> Tensor:
        """A state in plan order, `[N + V, d]`, from one in the user's order, `[N, d]`; virtual nodes start at zero."""
        if state.dim() != 2 or state.shape[0] != self.num_nodes:
            shape = list(state.shape)
            raise ValueError(f"`state` must have one row for each of the {self.num_nodes} nodes. Got shape {shape}.")
        if self.num_virtual:
            state = torch.cat([state, state.new_zeros(self.num_virtual, state.shape[1])])
        return state if self.order is None else permute_rows(state, self.order, self._place)

    def leave(self, state: Tensor) -> Tensor:
        """A state in the user's order, `[N, d]`, from one in plan order."""
        if self.order is not None:
            state = permute_rows(state, self._place, self.order)
        return state[: self.num_nodes] if self.num_virtual else state


def lower(
    graph: GraphLike,
    schedule: Schedule,
    device: torch.device | str = "cpu",
    normalization: str = "phase",
    *,
    self_loops: bool = False,
    shard: Ownership | None = None,
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
        shard: who owns which nodes, where several processes run the schedule together; the plan is then this
            process's share (:class:`gpnn.engine.sharded.ShardedPlan`), and all processes must lower together.

    Raises:
        ValueError: when the schedule was made for another graph, or the rule is unknown.

    >>> import gpnn
    >>> ring = gpnn.Graph([0, 1, 2], [1, 2, 0], num_nodes=3)
    >>> gpnn.lower(ring, gpnn.schedule.synchronous(ring, rounds=2)).num_messages
    6
    """
    _check_same(as_graph(graph), schedule)
    if shard is not None:
        from gpnn.engine.sharded import lower_owned

        return lower_owned(schedule, shard, device, normalization, self_loops=self_loops)
    rule = bind_rule(normalization, schedule.graph, _virtual(schedule), self_loops)
    order = _plan_order(schedule)
    place = _invert(order, schedule.graph.num_nodes)
    builder = BlockBuilder(schedule.graph, device)
    rows = _chunk_rows(schedule)
    lowered = {id(phase): LoweredPhase(phase, rule, place, builder, rows) for phase in schedule.distinct_phases()}
    rounds = tuple(tuple(lowered[id(phase)] for phase in phases) for phases in schedule.rounds)
    order = None if order is None else order.to(device)
    return Plan(
        rounds=rounds,
        order=order,
        device=torch.device(device),
        normalization=normalization,
        num_nodes=schedule.graph.num_nodes - schedule.num_virtual,
        num_virtual=schedule.num_virtual,
        num_edge_types=schedule.graph.num_edge_types,
        source=schedule,
    )


def _virtual(schedule: Schedule) -> Tensor | None:
    """Which nodes are virtual, `[N + V]`; None where none are."""
    if not schedule.num_virtual:
        return None
    return torch.arange(schedule.graph.num_nodes) >= schedule.graph.num_nodes - schedule.num_virtual


def _chunk_rows(schedule: Schedule) -> int:
    """Receivers a chunk: as many as the largest block has, so that memory follows it in phases without blocks too."""
    pointers = [phase.node_ptr for phase in schedule.distinct_phases() if phase.node_ptr is not None]
    return max((MIN_CHUNK_ROWS, *(int(ptr.diff().max()) for ptr in pointers))) if pointers else CHUNK_ROWS


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


def _check_same(graph: Graph, schedule: Schedule) -> None:
    own, size = schedule.graph, graph.num_edges
    num_nodes = own.num_nodes - schedule.num_virtual
    if graph.num_nodes != num_nodes:
        raise ValueError(f"The schedule was made for a graph of {num_nodes} nodes. Got one of {graph.num_nodes}.")
    if own.num_edges != size and not (schedule.num_virtual and own.num_edges > size):
        raise ValueError(f"The schedule was made for a graph of {own.num_edges} edges. Got one of {size}.")
    columns = {
        "src": (graph.src, own.src),
        "dst": (graph.dst, own.dst),
        "edge_type": (graph.edge_type, own.edge_type),
        "edge_weight": (graph.edge_weight, own.edge_weight),
    }
    for name, (given, made) in columns.items():
        if name == "edge_type" and given is None and schedule.num_virtual:
            continue  # virtual edges have types of their own, and then all edges have one
        same = given is made if given is None or made is None else torch.equal(given, made[:size])
        if not same:
            raise ValueError(f"The schedule was made for another graph. Got one whose `{name}` differs.")
