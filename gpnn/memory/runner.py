"""Bytes that a plan and its runner will take, from its counts alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.engine import Streamed
from gpnn.engine.blockwise_backward import ends_independently, is_one_blockwise_round
from gpnn.engine.lowered_phase import LoweredPhase, LoweredRows
from gpnn.engine.plan import AnyPhase, Plan
from gpnn.engine.reach import MANY
from gpnn.engine.recompute import SHARED_ROWS
from gpnn.engine.rows import step_rows
from gpnn.kernels.cpu_steps import MOST_BYTES
from gpnn.memory.reach import CountedParts, CountedReach, PartSize

# Bytes of an operator and its transpose per edge: two columns (one where it is symmetric, which is not known before)
# and edge id in 4 bytes each, and entry and weight likewise
_EDGE, _WEIGHT, _NODE = 12, 8, 40  # two pointers, a position and two factors in 8 bytes each
# Over a graph in CSR form, whose pointers and positions have 4 bytes on a GPU: the same of a row; and of a row that a
# block reads of another its number, and where its entries in the transpose begin
_OWN, _COPY = {"cpu": 40, "cuda": 28}, {"cpu": 16, "cuda": 8}
_HALO = 16  # a held edge's sender: its row, and its place among those that blocks read as they were
_PLACE = {"cpu": 8, "cuda": 4}  # that place alone, of a row that a block reads of another
_LOWERING_EDGE = 90  # ids, weights and orders in 8 bytes while a phase is compressed


class StateBytes(NamedTuple):
    """The sizes of what a cell works on.

    Attributes:
        state: bytes of a node's working state.
        kept: bytes that autograd keeps of a row that a step updates, its new state included.
        boundary: bytes in which a state is stored between rounds.
        kernel: bytes that differentiating a step over a number of rows takes where one kernel does it; None: autograd
            does, which takes as much as it keeps.
    """

    state: float
    kept: float
    boundary: float
    kernel: Callable[[int], float] | None = None


def plan_bytes(plan: Plan, *, recomputes: bool = False) -> float:
    """Bytes of the arrays that the plan's phases will come to hold: in blocks where a runner recomputes, else whole."""
    return sum(_phase_bytes(phase, plan.normalization, recomputes) for phase in _unbuilt(plan))


def lowering_bytes(plan: Plan) -> float:
    """Bytes that lowering the largest phase takes while it is at work."""
    return max((_LOWERING_EDGE * phase.lowering_edges for phase in _unbuilt(plan)), default=0)


def placed_bytes(plan: Plan) -> float:
    """Bytes of a graph's rows that are on a GPU to be lowered there, and are freed when that is done."""
    layouts = {phase.layout for phase in _unbuilt(plan) if isinstance(phase, LoweredRows)}
    arrays = ((layout.ptr, layout.col, layout.rule.weight, layout.rule.kind) for layout in layouts)
    placed = {array for each in arrays for array in each if array is not None and array.is_cuda}
    return float(sum(array.numel() * array.element_size() for array in placed))


def runner_bytes(plan: Plan, sizes: StateBytes, *, recomputes: bool) -> tuple[float, float]:
    """Bytes that a runner of the plan keeps for the backward pass, and those that this pass takes besides."""
    if plan.runners is not None:
        return _sharded_bytes(plan, sizes, recomputes)
    return streamed_bytes(plan, sizes) if recomputes else fused_bytes(plan, sizes)


def fused_bytes(plan: Plan, sizes: StateBytes) -> tuple[float, float]:
    """The same for the fused runner."""
    num_nodes = plan.num_nodes + plan.num_virtual
    kept = 0.0
    for phase in (phase for phases in plan.rounds for phase in phases):
        # of some rows what they read is kept in the place of new ones, which go into a state that the next phase keeps
        separate = phase.num_halo if phase.num_held and phase.repeat > 1 else 0  # senders as they were, at each step
        kept += phase.repeat * (phase.num_rows * sizes.kept + separate * sizes.state)
    largest = max((phase.num_rows for phase in plan.distinct_phases()), default=0)
    inside = largest * sizes.kept if sizes.kernel is None else sizes.kernel(largest)
    return kept, 3 * num_nodes * sizes.state + inside  # gradients of states, and of one step's inside


def streamed_bytes(plan: Plan, sizes: StateBytes) -> tuple[float, float]:
    """The same for the streamed runner: states between rounds, and the backward pass with its largest block."""
    num_nodes = plan.num_nodes + plan.num_virtual
    kept = num_nodes * (max(0, plan.num_rounds - 1) * sizes.boundary + sizes.state)
    work = max((_block_bytes(phase, sizes, plan.device) for phase in plan.distinct_phases()), default=0.0)
    return kept, 2 * num_nodes * sizes.state + work


def largest_piece_bytes(plan: Plan, sizes: StateBytes) -> float:
    """Bytes of the streamed runner's work that follow the size of the largest subgraph."""
    return max((piece_bytes(phase, sizes, plan.device) for phase in plan.distinct_phases()), default=0.0)


def _sharded_bytes(plan: Plan, sizes: StateBytes, recomputes: bool) -> tuple[float, float]:
    """The same for a process's share: recomputing keeps what enters a phase, or a step where each exchanges rows."""
    num_rows, kept, inside = plan.num_nodes + plan.num_virtual, 0.0, 0.0
    for phase in (phase for phases in plan.rounds for phase in phases):
        steps, step = phase.repeat, phase.num_rows * sizes.kept
        exchange = getattr(phase, "exchange", None)
        read = num_rows if exchange is None else phase.num_rows + exchange.num_received
        alone = steps if exchange is None or phase.num_held else 1  # steps that are computed again in one go
        if alone > 1 and _stores_gates(sizes, plan.device):
            kept += 2 * read * sizes.state + (0 if recomputes else _gate_bytes(phase.num_rows, steps, sizes))
            begun = 0 if exchange is None or recomputes else 3 * phase.num_rows * sizes.state  # while rows travel
            inside = max(inside, begun + torch.get_num_threads() * _gate_bytes(phase.piece_rows, steps, sizes))
            continue
        kept += (steps / alone) * read * sizes.state if recomputes else steps * (step + read * sizes.state)
        inside = max(inside, alone * step if recomputes else step)
    return kept, 3 * num_rows * sizes.state + inside


def _stores_gates(sizes: StateBytes, device: torch.device) -> bool:
    """Whether all steps of a block are one kernel, whose backward pass has their gates at hand."""
    return sizes.kernel is not None and device.type == "cpu"


def _gate_bytes(rows: int, steps: int, sizes: StateBytes) -> float:
    """Bytes of what steps that one kernel takes hold: of each a state, a message and four gates."""
    return 6.0 * rows * steps * sizes.state


def _unbuilt(plan: Plan) -> list[LoweredPhase | LoweredRows]:
    """The phases whose arrays are yet to come, as far as a plan says; those of a built plan are there."""
    if plan.runners is not None:  # several processes build theirs together, when they lower
        return []
    return [phase for phase in plan.distinct_phases() if isinstance(phase, LoweredPhase | LoweredRows)]


def _phase_bytes(phase: LoweredPhase | LoweredRows, normalization: str, in_blocks: bool) -> float:
    if isinstance(phase, LoweredRows):
        return _row_phase_bytes(phase, in_blocks)
    weighted = phase.weighted or normalization.startswith("symmetric")
    per_edge = _EDGE + (_WEIGHT if weighted else 0)
    return per_edge * phase.num_edges + (per_edge + _HALO) * phase.num_held + _NODE * phase.num_rows


def _row_phase_bytes(phase: LoweredRows, in_blocks: bool) -> float:
    """The same over a graph in CSR form, which has no edge ids; where it is symmetric and blocks read no rows of
    others, edges are their own transpose."""
    device, copies = phase.layout.ptr.device.type, phase.num_copies if in_blocks else 0
    copies = phase.num_halo if not in_blocks and phase.repeat > 1 else copies
    mirrored = phase.layout.symmetric and not copies
    per_edge, per_row = (4, _OWN[device] - _COPY[device]) if mirrored else (8, _OWN[device])
    per_edge += _WEIGHT if phase.weighted else 0
    place = _PLACE[device] if phase.num_held else 0
    per_copy = _COPY[device] + place + (12 if phase.scales_senders else 0)
    apart = phase.repeat > 1 and phase.layout.symmetric and not phase.weighted
    columns = 4 * phase.num_held if apart else 0  # of held edges
    return per_edge * (phase.num_edges + phase.num_held) + columns + per_copy * copies + per_row * phase.num_rows


def _block_bytes(phase: AnyPhase, sizes: StateBytes, device: torch.device) -> float:
    """Bytes that differentiating the largest piece of a phase takes, and its rows where pieces read each other's."""
    joint = phase.num_halo if phase.num_held else 0 if phase.independent else phase.num_rows
    return joint * sizes.state + piece_bytes(phase, sizes, device)


def piece_bytes(phase: AnyPhase, sizes: StateBytes, device: torch.device, parts: CountedParts | None = None) -> float:
    """Bytes that differentiating the largest piece of a phase takes, or one per thread where pieces are small.

    With `parts`, it takes its last steps by them.
    """
    if parts is not None:
        return _parted_bytes(phase, sizes, parts)
    rows = phase.piece_rows
    at_once = torch.get_num_threads() if rows <= SHARED_ROWS and device.type == "cpu" else 1
    inside = 0.0 if sizes.kernel is None else sizes.kernel(rows)
    steps = phase.repeat if phase.independent else 1
    gates = _gate_bytes(rows, steps, sizes)
    if steps > 1 and _stores_gates(sizes, device) and gates <= MOST_BYTES:
        return at_once * (gates + (4 * rows + 2 * (rows + phase.piece_halo)) * sizes.state)
    if phase.num_held:
        split = sizes.kernel is not None and device.type == "cuda"  # what is held is read once for all steps
        inside += (2 if split else steps + 1) * (rows + phase.piece_halo) * sizes.state  # inputs, and their gradient
    return at_once * (rows * (steps * sizes.kept + 4 * sizes.state) + inside)


def _parted_bytes(phase: AnyPhase, sizes: StateBytes, parts: CountedParts) -> float:
    """The same where parts take the last steps: what the block reads, its whole steps, and the most of what follows.

    That is what the parts read and keep, or, when these are done, gradients of what the block reads, one through its
    parts and one through its whole steps, and of the rows that it writes.
    """
    rows, read = phase.piece_rows, phase.piece_rows + phase.piece_halo
    forward = sum(2 * each.inputs * sizes.state + each.rows * sizes.kept for each in parts.largest)
    backward = (2 * read + rows) * sizes.state + (0.0 if sizes.kernel is None else sizes.kernel(rows))
    return read * sizes.state + parts.whole_steps * rows * sizes.kept + max(forward, backward)


class SourceBytes(NamedTuple):
    """Bytes of one pass.

    Attributes:
        kept: states between forward and backward, on the device.
        work: what the larger of the two passes takes besides.
        host: what lies in host memory beside a GPU: features, and states between rounds.
    """

    kept: float
    work: float
    host: float


def source_bytes(
    plan: Plan,
    sizes: StateBytes,
    runner: Streamed,
    features: float,
    *,
    read: float = 0.0,
    made: float = 0.0,
    whole: bool = True,
    at_once: bool = True,
    parts: CountedParts | None = None,
) -> SourceBytes:
    """What a pass takes.

    Args:
        plan: the lowered schedule.
        sizes: bytes per row.
        runner: where features and states are.
        features: bytes of all features as the runner stores them.
        read: bytes of a row's features as its state is made of them.
        made: bytes that making a row's state of its features takes, and its gradient.
        whole: features on the host come to the device all at once; else a round begins from a state that is made of
            them.
        at_once: blocks of the last round are differentiated as they are done, where they do not read each other.
        parts: those in which these blocks take their last steps.
    """
    state, rounds = plan.num_nodes * sizes.state, plan.num_rounds
    beside = plan.device.type == "cuda"
    on_host = features if runner.features == "cpu" and beside else 0.0
    fetched = on_host if whole else 0.0
    if whole and is_one_blockwise_round(plan):  # blocks make what they read; scores of all nodes are made of a state
        (phase,) = plan.rounds[0]
        num_read = phase.piece_rows + phase.piece_halo
        piece = max(piece_bytes(phase, sizes, plan.device, parts) + num_read * read, num_read * made)
        return SourceBytes(0.0, fetched + piece, on_host)
    places = [_place(runner, number, rounds, beside) for number in range(rounds)]
    sizes_of = {"source": 0.0, "here": state, "rounded": state / 2, "host": 0.0, "disk": 0.0}
    stored = [sizes_of[place] for place in places]
    if runner.phases:  # at most all rows between two phases, in all rounds but the last
        between = [state if len(phases) == 2 else 0.0 for phases in plan.rounds[:-1]]
        stored = [one + other for one, other in zip(stored, [*between, 0.0])]
    if rounds > 1 and ends_independently(plan):
        places[-1], stored[-1] = "here", state  # the working state itself, which the last round only reads
    hosted = places.count("host")
    if on_host and not whole:
        places[0] = "streamed"
    forward = max(fetched, _in_place(plan, state) if on_host else 0.0) + state * (1 + (hosted > 0))
    peak = max(forward, sum(stored) + (state if stored and places[-1] != "here" else 0.0))
    for number, phases in enumerate(plan.rounds):
        at_hand = places[number] in ("source", "here")
        copied = state if places[number] == "host" or not (at_hand or _in_copy(phases)) else 0.0
        ahead = fetched if number < 2 else state if places[number - 1] == "host" else 0.0
        if at_once and number + 1 == rounds and ends_independently(plan):  # what they receive is added where it stands
            here = fetched if rounds == 1 else 0.0  # what comes next is fetched later
            backward = state + copied + here + piece_bytes(phases[0], sizes, plan.device, parts)
        else:
            backward = state + copied + _phases_bytes(plan, phases, sizes, state, ahead)
        peak = max(peak, sum(stored[: number + 1]) + backward)
    kept = sum(stored)
    return SourceBytes(kept, peak - kept, on_host + hosted * state)


def reach_bytes(counted: CountedReach, sizes: StateBytes, *, made: float) -> float:
    """Bytes that a pass takes through what the rows of a loss reach.

    Args:
        counted: the reach.
        sizes: bytes per row.
        made: bytes that making a row's state of its features takes, and its gradient.
    """
    peak = 0.0
    for number, (held, parts) in enumerate(zip(counted.reach.held_by_stage, counted.parts)):
        beside = 0.0 if number else made
        block = max((_part_bytes(size, sizes) + min(size.inputs, MANY) * beside for size in parts), default=0.0)
        peak = max(peak, held * sizes.state + block)
    return peak


def _part_bytes(size: PartSize, sizes: StateBytes) -> float:
    """Bytes that differentiating a part takes: what it reads and its gradient, what it writes, and what that keeps."""
    inside = 0.0 if sizes.kernel is None else sizes.kernel(size.rows)
    return (2 * size.inputs + size.rows) * sizes.state + size.rows * sizes.kept + inside


def scoring_bytes(
    plan: Plan, sizes: StateBytes, outputs: float, *, scored: float, every: bool, share: float = 1.0
) -> float:
    """Bytes that outputs take after the last epoch, without gradients.

    Args:
        plan: the lowered schedule.
        sizes: bytes per row.
        outputs: bytes of those that stay on the plan's device.
        scored: bytes that a row takes while its outputs are made.
        every: whether all nodes are scored, not those of splits alone, of which one round in blocks needs no state.
        share: of all nodes, whose states one round in blocks gives at one time.
    """
    states, chunk = 0.0, min(plan.num_nodes, step_rows(plan.device))
    for phase in plan.distinct_phases():
        joint = 0 if phase.independent else phase.num_rows  # new rows are held until all are computed
        joint = phase.num_halo if phase.num_held and plan.num_rounds > 1 else joint
        states = max(states, joint + 3 * phase.piece_rows + phase.piece_halo)
    share = share if every else 0.0
    state = share * plan.num_nodes if is_one_blockwise_round(plan) else plan.num_nodes
    return state * sizes.state + max(states * sizes.state, outputs + chunk * scored)


def _place(runner: Streamed, number: int, rounds: int, beside: bool) -> str:
    """Where the state before a round is kept for the backward pass."""
    if number == 0:
        return "source"
    if rounds - number > runner.near:
        if runner.folder is not None:
            return "disk"
        if runner.device == "cpu" and beside:
            return "host"
    return "here" if runner.dtype is None else "rounded"


def _in_place(plan: Plan, state: float) -> float:
    """New rows that are held until all are computed."""
    return max((0.0 if phase.independent else state for phase in plan.distinct_phases()), default=0.0)


def _in_copy(phases: tuple[AnyPhase, ...]) -> bool:
    """Whether a round is done again in a copy of its states."""
    return len(phases) > 1 or any(not each.independent and each.repeat > 1 for each in phases)


def _phases_bytes(plan: Plan, phases: tuple[AnyPhase, ...], sizes: StateBytes, state: float, ahead: float) -> float:
    """What going back through a round takes beside the gradient of its states.

    `ahead` are bytes that are copied to the device while its first phase, the last to be gone through, is at work; the
    copy that later phases were done in is free by then.
    """
    work = [_block_bytes(each, sizes, plan.device) for each in phases]
    copy = state if _in_copy(phases) else 0.0
    if len(phases) < 2:
        return ahead + copy + sum(work)
    first = state if not phases[0].independent and phases[0].repeat > 1 else 0.0
    return max(copy + max(work[1:]), ahead + first + work[0])


def stored_bytes(x: Tensor, state_width: int) -> float:
    """Bytes of dense features on the host, which are kept no wider than `state_width` bytes a number."""
    return float(x.numel() * min(x.element_size(), state_width))
