"""lower: a schedule turned into the arrays that one device runs; lower_csr: phases over arrays in CSR form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from gpnn.check import check_choice, check_count
from gpnn.engine.block import Block, BlockBuilder
from gpnn.engine.lowered_phase import BuiltPhase, LoweredPhase, LoweredRows
from gpnn.engine.normalize import NORMALIZATIONS, bind_rule
from gpnn.engine.plan import Plan
from gpnn.engine.row_blocks import RowLayout, RowRule
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.schedule import PhaseSpec, Schedule
from gpnn.schedule.phase_spec import SENDS_CUT, RowPhase

CHUNK_ROWS, MIN_CHUNK_ROWS = 65536, 4096


class ShardLowering(Protocol):
    """Lowers this process's share of a schedule."""

    def lower(
        self,
        schedule: Schedule,
        device: torch.device | str,
        normalization: str,
        *,
        self_loops: bool,
        edge_digest: int | None,
    ) -> Plan: ...


def lower(
    graph: GraphLike | Schedule | None = None,
    schedule: Schedule | None = None,
    device: torch.device | str = "cpu",
    normalization: str = "phase",
    *,
    self_loops: bool = False,
    shard: ShardLowering | None = None,
) -> Plan:
    """Turn a schedule into the arrays that one device runs.

    `lower(schedule)` suffices, since a schedule owns its graph. `lower(graph, schedule)` also checks that the schedule
    was made for `graph`. Lower once and reuse: a plan does not depend on the model. Aggregation by "mean" uses the
    normalised weights; "sum", "max" and "min" use the graph's own.

    Args:
        graph: the graph that the schedule was made for, or the schedule itself.
        schedule: which messages are sent when; left out where the first argument is the schedule.
        device: where the plan lives.
        normalization: a rule of :mod:`gpnn.engine.normalize`: phase, graph, split, symmetric, ….
        self_loops: every node also receives its own message, as if it had a self-loop.
        shard: which rank owns which nodes (:class:`gpnn.distributed.Ownership`), where several processes run the
            schedule; the plan is then this process's share, and all processes must lower together.

    Raises:
        ValueError: when the schedule was made for another graph or its graph was changed since, or the rule is unknown.

    >>> import gpnn
    >>> ring = gpnn.Graph([0, 1, 2], [1, 2, 0], num_nodes=3)
    >>> schedule = gpnn.schedule.synchronous(ring, rounds=2)
    >>> gpnn.lower(schedule).num_messages, gpnn.lower(ring, schedule, normalization="graph").num_messages
    (6, 6)
    """
    given, schedule = _arguments(graph, schedule)
    schedule.check_unchanged()
    if given is not None:
        _check_same(given, schedule)
    edge_digest = _user_digest(schedule)
    if shard is not None:
        return shard.lower(schedule, device, normalization, self_loops=self_loops, edge_digest=edge_digest)
    check_choice("normalization", normalization, NORMALIZATIONS)
    if (rows := _row_phases(schedule)) is not None:
        return _lower_rows(schedule, rows, torch.device(device), normalization, self_loops, edge_digest)
    rule = bind_rule(normalization, schedule.graph, _virtual(schedule), self_loops)
    order = _plan_order(schedule)
    place = _invert(order, schedule.graph.num_nodes)
    builder = BlockBuilder(schedule.graph, device)
    parts = (rule, place, builder, _chunk_rows(schedule), schedule.check_unchanged)
    lowered = {id(phase): LoweredPhase(phase.listed, *parts) for phase in schedule.distinct_phases()}
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
        edge_digest=edge_digest,
    )


def _row_phases(schedule: Schedule) -> list[RowPhase] | None:
    """The phases of a schedule over rows, which is lowered without a list of edges; None: it needs one."""
    phases = list(schedule.distinct_phases())
    rows = [phase for phase in phases if isinstance(phase, RowPhase)]
    return rows if rows and len(rows) == len(phases) else None


def _lower_rows(
    schedule: Schedule,
    phases: list[RowPhase],
    device: torch.device,
    normalization: str,
    self_loops: bool,
    edge_digest: int | None,
) -> Plan:
    """The plan of phases over rows, which all have the same partition, if any; lowered on the device."""
    graph, parts, crossings = schedule.graph, phases[0].parts, phases[0].crossings
    assert graph.rows is not None
    rows = graph.rows.to(device)
    weight, kind = (None if each is None else each.to(device) for each in (graph.edge_weight, graph.edge_type))
    kind = kind if graph.num_edge_types > 1 else None
    rule = RowRule(normalization, float(self_loops), weight, kind, graph.num_edge_types)
    order = None if parts is None or _in_order(parts.order) else parts.order
    ends = range(0, rows.num_nodes, CHUNK_ROWS) if parts is None else parts.ptr.tolist()[:-1]
    sends = None
    if crossings is not None and not rows.symmetric:
        sends = (crossings.roles & SENDS_CUT) != 0
        sends = (sends if order is None else sends[order]).to(device)
    placed = None if order is None else order.to(device)
    layout = RowLayout(rows.ptr, rows.col, rows.symmetric, placed, (*ends, rows.num_nodes), sends, rule)
    lowered = {id(phase): LoweredRows(phase, layout) for phase in phases}
    return Plan(
        rounds=tuple(tuple(lowered[id(phase)] for phase in phases) for phases in schedule.rounds),
        order=placed,
        device=device,
        normalization=normalization,
        num_nodes=rows.num_nodes,
        num_virtual=0,
        num_edge_types=graph.num_edge_types,
        source=schedule,
        edge_digest=edge_digest,
    )


def _in_order(order: Tensor) -> bool:
    return torch.equal(order, torch.arange(order.numel()))


def _arguments(graph: GraphLike | Schedule | None, schedule: Schedule | None) -> tuple[Graph | None, Schedule]:
    """The graph, if one is given, and the schedule, which may take the first place."""
    if isinstance(graph, Schedule):
        if schedule is not None:
            raise ValueError(f"`lower` must get one schedule. Got two: {graph} and {schedule!r}.")
        return None, graph
    if not isinstance(schedule, Schedule):
        raise ValueError(f"`schedule` must be a gpnn.Schedule. Got {type(schedule).__name__}.")
    return None if graph is None else as_graph(graph), schedule


def _user_digest(schedule: Schedule) -> int | None:
    """The digest of the edges that the user's graph has; edges to and from virtual nodes come after them.

    None where the graph's rows lie on a device and nobody knows it.
    """
    graph, num_nodes = schedule.graph, schedule.graph.num_nodes - schedule.num_virtual
    if graph.rows is not None and graph.rows.known_digest is None and graph.rows.ptr.device.type != "cpu":
        return None
    if not schedule.num_virtual:
        return (graph.digest() if schedule.digest is None else schedule.digest).edges
    return graph.select_edges((graph.src < num_nodes) & (graph.dst < num_nodes)).digest().edges


def _virtual(schedule: Schedule) -> Tensor | None:
    """Which nodes are virtual, `[N + V]`; None where none are."""
    if not schedule.num_virtual:
        return None
    return torch.arange(schedule.graph.num_nodes) >= schedule.graph.num_nodes - schedule.num_virtual


def _chunk_rows(schedule: Schedule) -> int:
    """Receivers per chunk: as many as the largest block has, so that memory follows it in phases without blocks too."""
    pointers = [phase.listed.node_ptr for phase in schedule.distinct_phases() if phase.has_blocks]
    sizes = [int(ptr.diff().max()) for ptr in pointers if ptr is not None]
    return max((MIN_CHUNK_ROWS, *sizes)) if sizes else CHUNK_ROWS


def _plan_order(schedule: Schedule) -> Tensor | None:
    """The user's nodes grouped as the first phase with blocks groups them; None when that changes nothing."""
    blocked = next((phase.listed for phase in schedule.distinct_phases() if phase.has_blocks), None)
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
    if graph is own:
        return
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


def lower_csr(
    ptr: Tensor,
    col: Tensor,
    order: Tensor,
    part_ptr: Tensor,
    phases: Sequence[PhaseSpec],
    *,
    rounds: int,
    normalization: str = "phase",
) -> Plan:
    """Rounds of these phases, ready to run in plan order, lowered where the arrays lie; a part's receivers are a block.

    For graphs whose edge lists are too long for Python's own memory or for one CPU thread: nothing of the size of the
    edges is made besides the plan's own arrays, and those of the inside edges serve as their own transpose.

    Args:
        ptr: where each node's neighbours begin, `[N + 1]`.
        col: the neighbours, `[E]`; the graph must be symmetric, multiplicities included.
        order: the nodes grouped by part: plan row r is node `order[r]`, `[N]`.
        part_ptr: part p owns plan rows `part_ptr[p]:part_ptr[p + 1]`, `[K + 1]`.
        phases: of one round: :func:`gpnn.schedule.partitioned_phases`, :func:`gpnn.schedule.held_cut_phases` or
            :func:`gpnn.schedule.synchronous_phases`.
        rounds: number of rounds T.
        normalization: "phase" or "graph", as in :mod:`gpnn.engine.normalize`; messages are not weighted otherwise.

    Raises:
        ValueError: when the rule is unknown, there is no phase, or the arrays do not fit each other.

    >>> import torch
    >>> from gpnn.schedule import partitioned_phases, synchronous_phases
    >>> ring = torch.arange(0, 9, 2), torch.tensor([1, 3, 0, 2, 1, 3, 0, 2])
    >>> parts = torch.arange(4), torch.tensor([0, 2, 4])
    >>> [lower_csr(*ring, *parts, each, rounds=3).num_updates for each in (partitioned_phases(), synchronous_phases())]
    [24, 12]
    """
    check_choice("normalization", normalization, ("phase", "graph"))
    check_count("rounds", rounds, at_least=1)
    if not phases:
        raise ValueError("`phases` must hold at least one phase. Got none.")
    num_nodes, ends = ptr.numel() - 1, part_ptr.tolist()
    if order.numel() != num_nodes or ends[0] != 0 or ends[-1] != num_nodes:
        raise ValueError(
            f"`order` and `part_ptr` must cover the {num_nodes} nodes. Got {order.numel()} and {ends[-1]}."
        )
    blocks: list[list[Block]] = [[] for _ in phases]
    digest = num_held = 0
    layout = RowLayout(ptr, col, True, order, tuple(ends), None, RowRule(normalization))
    for piece in layout.pieces():
        digest += piece.digest()
        num_held += int(piece.crosses.sum())
        for spec, found in zip(phases, blocks):
            block = layout.block(spec, piece)
            found += [] if block is None else [block]
    built = (_phase(spec, tuple(found), num_held) for spec, found in zip(phases, blocks) if found)
    return Plan(
        rounds=(tuple(built),) * rounds,
        order=None,
        device=ptr.device,
        normalization=normalization,
        num_nodes=num_nodes,
        num_virtual=0,
        num_edge_types=1,
        source=None,
        edge_digest=digest & 0xFFFFFFFFFFFFFFFF,
    )


def _phase(spec: PhaseSpec, blocks: tuple[Block, ...], num_crossing: int) -> BuiltPhase:
    independent = spec.kind in ("inside", "held") or len(blocks) == 1
    num_held = num_crossing if spec.kind == "held" else 0
    return BuiltPhase(spec.kind, blocks, independent, spec.repeat, spec.closing, spec.kind == "all", num_held)
