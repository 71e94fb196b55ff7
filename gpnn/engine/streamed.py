"""The streamed runner: one block at a time, recomputed in the backward pass.

Forward saves the state at the start of each round and, where the last round has two phases, or on request any, the rows
that the second one reads, which the backward pass frees before it needs as much elsewhere. Backward takes the rounds
from last to first: it recomputes a round up to its last phase without gradients, unless what that phase reads was
saved, then goes back through the phases, restoring the state before each and differentiating one block at a time.
Besides the round-boundary states, one working state and its gradient, memory follows the largest block; a phase whose
blocks read each other's rows also holds a copy of the rows that it writes, and one that holds messages a copy, then the
gradient, of the rows that blocks read of each other. A round of one phase with blocks of its own writes no state: it is
read where it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.engine.block import Block
from gpnn.engine.blockwise_backward import (
    BlockwiseBackward,
    Differentiated,
    RowLoss,
    add_gradient,
    ends_in_blocks,
    is_one_blockwise_round,
    through_only_round,
    without_hooks,
)
from gpnn.engine.plan import Plan
from gpnn.engine.reach import fitting, reach_of, through_reach
from gpnn.engine.recompute import Recomputation, own_rows, round_steps
from gpnn.engine.rows import Rows, RowsByBlock, read_rows, write_rows
from gpnn.engine.saved_states import Boundary, GivenState, HostState, SavedState, Source
from gpnn.engine.step import CellLike, Step
from gpnn.kernels.autograd import first_order
from gpnn.pages import empty_like


@dataclass(frozen=True)
class Streamed:
    """The streamed runner, and how it saves the round-boundary states.

    Attributes:
        dtype: the type they are stored in, such as `torch.bfloat16`; None keeps the state's own, and then the
            recomputed pass is exact.
        device: the device they are stored on, such as "cpu" for a plan on a GPU; None leaves them where they are.
        folder: a folder for memory-mapped files that hold them instead of memory, or None.
        near: how many of the states, the last ones, stay in the computation's own memory whatever `device` says.
        phases: whether the rows that the second of two phases reads are kept in every round, not in the last alone:
            at most a state per round more, and the first phase is computed once less.
        features: where features lie that initial states are made of: "cpu" in host memory, page-locked where there is a
            GPU to copy to; "disk": in files, which are read in their own order, so that initial states are kept; None:
            where the plan is.
        part_edges: of a block's edges, the share that one of its parts may have. A GPU takes the last steps of a block
            for the rows that a loss needs, by parts of it that have copies of these rows' edges. With hubs among them
            a part has most of the edges, and a step for all rows takes longer and less memory.
        scored: of all nodes, the share whose states are held at one time when all are scored after a lone round, which
            is done once for each share.
    """

    dtype: torch.dtype | None = None
    device: str | None = None
    folder: Path | str | None = None
    near: int = 0
    features: str | None = None
    phases: bool = False
    part_edges: float = 1.0
    scored: float = 1.0
    recomputes: ClassVar[bool] = True

    def __call__(
        self, cell: CellLike, plan: Plan, state: Tensor, *, initial: Tensor | None, collect: bool
    ) -> list[Tensor]:
        """The working state after each round, or after the last one only, in plan order, `[N + V, s]`."""
        return self.run(cell, plan, GivenState(state), initial=initial, collect=collect)

    def run(
        self,
        cell: CellLike,
        plan: Plan,
        source: Source,
        *,
        initial: Tensor | None = None,
        collect: bool = False,
        rows: Tensor | None = None,
    ) -> list[Tensor]:
        """The same from a source of the initial states.

        Args:
            cell: how nodes send, aggregate and update.
            plan: which messages travel when.
            source: the working states before the first round.
            initial: h0 for cells with an initial residual, `[N + V, d]`; None: a lone round starts from it.
            collect: give the states after each round.
            rows: the plan rows whose states are wanted, distinct, `[n]`; None: all. The others are not kept.
        """
        parameters = tuple(p for p in cell.parameters() if p.requires_grad)
        differentiable = (*source.tensors, *parameters, *([] if initial is None else [initial]))
        saves = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in differentiable)
        seed = int(torch.randint(2**62, ())) if cell.random else None
        half = _autocast_type(plan.device.type)
        recomputation = Recomputation(cell, plan, seed, self.part_edges)
        run = _Run(recomputation, self, source, parameters, collect, rows, saves, half)
        if rows is not None and not saves and not collect and ends_in_blocks(plan):
            with torch.no_grad():
                return [_compute_rows(run, rows, initial)]
        return list(_Propagation.apply(run, initial, *source.tensors, *parameters))

    def differentiate(self, cell: CellLike, plan: Plan, source: Source, loss: RowLoss) -> Tensor:
        """A loss of the states after the last round, with its gradients.

        Forward and backward pass are one: the loss is differentiated a range of rows at a time, and nothing of it is
        kept. Where a plan :func:`ends_in_blocks`, those of the last round are computed once, and differentiated at
        once. The value is a scalar whose backward pass hands on what was found.

        Args:
            cell: how nodes send, aggregate and update; without random numbers, and without initial residual unless the
                plan :func:`is_one_blockwise_round`.
            plan: which messages travel when.
            source: the working states before the first round, which are made again when they are needed again.
            loss: of the rows.
        """
        own = tuple(p for p in cell.parameters() if p.requires_grad)
        parameters = (*own, *(each for each in loss.tensors if all(each is not p for p in own)))
        recomputation = Recomputation(cell, plan, None, self.part_edges)
        run = _Run(recomputation, self, source, parameters, False, None, True, None)
        with torch.no_grad(), without_hooks((*source.tensors, *parameters)):
            value, grads = _differentiate(run, loss)
        wanted = _sum_by_tensor((*source.tensors, *parameters), grads)
        return Differentiated.apply(value, list(wanted.values()), *wanted)

    def save(self, state: Tensor, number: int, num_rounds: int, *, once: bool) -> SavedState:
        """The state before round `number`, from 1, as it is stored; it will be overwritten."""
        if num_rounds - number <= self.near:
            return Boundary(state, self.dtype, None, None, copy=True, once=once)
        if once and self.device == "cpu" and self.dtype is None and self.folder is None:
            return HostState(state)
        return Boundary(state, self.dtype, self.device, self.folder, copy=True, once=once)

    def save_given(self, state: Tensor) -> Boundary:
        """The state before the first round, which its owner may change afterwards unless it is stored as it is."""
        return Boundary(state, self.dtype, self.device, self.folder, copy=False)

    @property
    def changes_nothing(self) -> bool:
        """Whether a given state is stored as it is."""
        return self.dtype is None and self.device is None and self.folder is None


@dataclass(frozen=True)
class _Run:
    """What one propagation needs besides its tensors."""

    recomputation: Recomputation
    settings: Streamed
    source: Source
    parameters: tuple[Tensor, ...]
    collect: bool
    rows: Tensor | None  # plan rows that are wanted
    saves: bool  # whether there will be a backward pass
    half: torch.dtype | None  # autocast's type, in which the backward pass must repeat the forward one

    def keeps_rows(self, step: Step) -> bool:
        """Whether what a phase reads is kept, given its first step: by the second of two, in the last round or any."""
        rounds, settings = self.recomputation.rounds, self.settings
        wanted = settings.phases or step.round + 1 == len(rounds)
        second = step.phase == 1 and len(rounds[step.round]) == 2
        if not self.saves or getattr(self.recomputation.cell, "is_linear", False):  # whose gradients need no states
            return False
        return wanted and second and settings.device is None and settings.folder is None

    def select(self, state: Tensor, *, last: bool) -> Tensor:
        """What the caller gets of a state."""
        if self.rows is not None:
            return read_rows(state, self.rows)
        return state if last else state.clone()

    def boundary(self, number: int, state: Tensor) -> SavedState | None:
        """The state before a round, stored where there will be a backward pass; None: it is not."""
        if number == 0:
            given = self.source.peek() if self.source.kept else None
            return self.settings.save_given(given) if self.saves and isinstance(given, Tensor) else self.source
        if not self.saves:
            return None
        return self.settings.save(state, number, len(self.recomputation.rounds), once=not self.source.kept)


class _Propagation(Function):
    @staticmethod
    def forward(ctx: Any, run: _Run, initial: Tensor | None, *tensors: Tensor) -> tuple[Tensor, ...]:
        working, boundaries, outputs, kept = run.source.new_state(), [], [], []
        rounds = run.recomputation.rounds
        for number in range(len(rounds)):
            boundary, rows = _advance_round(run, number, working, initial)
            boundaries.append(boundary)
            kept.append(rows)
            last = number + 1 == len(rounds)
            if run.collect or last:
                outputs.append(run.select(working, last=last))
        ctx.run, ctx.boundaries, ctx.kept = run, boundaries if run.saves else [], kept
        # a boundary that is the given state itself must not change under us: autograd checks what it saves
        stays = run.source.kept and run.settings.changes_nothing
        ctx.save_for_backward(run.source.peek() if stays else None, initial)
        if not stays:
            run.source.release()
        return tuple(outputs)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        run: _Run = ctx.run
        _, initial = ctx.saved_tensors
        backward = BlockwiseBackward(run.recomputation, run.parameters, initial, run.source.new_state().zero_())
        backward.kept, ctx.kept = ctx.kept, []  # a second backward pass recomputes
        boundaries = ctx.boundaries if run.source.kept else _take(ctx)
        skipped: list[Tensor | None] = [None] * (len(boundaries) - len(grads))
        received = [*skipped, *grads]
        # no cache: older torch would reuse weights that a recomputation without gradients has cast, and lose theirs
        device = run.recomputation.plan.device.type
        if len(boundaries) == 1:
            boundaries[0].fetch()
        half = torch.autocast(device, dtype=run.half, enabled=run.half is not None, cache_enabled=False)
        with half, without_hooks((*run.source.tensors, *run.parameters)):
            for number in reversed(range(len(boundaries))):
                backward.add(received[number], run.rows)
                backward.through_round(number, boundaries[number], boundaries[number - 1] if number else None)
            backward.release()
            by_source = run.source.gradients(backward.grad)
        return None, backward.initial_grad, *by_source, *backward.parameter_grads


def _advance_round(
    run: _Run, number: int, working: Tensor, initial: Tensor | None
) -> tuple[SavedState | None, Tensor | None]:
    """Turn the state before a round into that after it, in `working`.

    Returns what is kept of it for the backward pass: the state before the round, and the rows that a phase reads,
    `[m, s]`, or None.
    """
    kept, stored = None, run.boundary(number, working)
    boundary = run.source if number == 0 else stored
    phases, before = run.recomputation.rounds[number], None if boundary is None else boundary.peek()
    if number == 0 and (before is None or not phases or phases[0].num_rows < len(working)):
        run.source.load(working)
    for phase, steps in round_steps(phases, number):
        kept = read_rows(working, phase.input_rows) if run.keeps_rows(steps[0]) else None
        run.recomputation.do_phase(phase, steps, working, initial, before)
        before = None
        if boundary is not None and not (number == 0 and run.source.kept):
            boundary.release()
        boundary = None
    return stored, kept


def _compute_rows(run: _Run, rows: Tensor, initial: Tensor | None) -> Tensor:
    """Some plan rows after the last round, `[n, s]`, whose blocks need not take the last step for others."""
    rounds, state = run.recomputation.rounds, _before_last_round(run, initial)
    ((phase, steps),) = round_steps(rounds[-1], len(rounds) - 1)
    placed, order = rows.sort()
    by_block, found = RowsByBlock(placed), empty_like(read_rows(state, slice(0, 1)).expand(len(rows), -1))

    def compute(number: int, block: Block) -> None:
        assert isinstance(block.rows, slice)
        places, wanted = by_block.of(block.rows)
        if places.start < places.stop:
            inputs, own = read_rows(state, block.inputs), own_rows(initial, block)
            wanted = None if wanted is None else wanted.clone()  # so that a part that is made for them goes with them
            write_rows(found, order[places], run.recomputation.advance(block, number, inputs, steps, own, wanted))

    for _ in run.recomputation.each(phase, compute):
        pass
    return found


def _before_last_round(run: _Run, initial: Tensor | None) -> Tensor | Rows:
    """The state before the last round; before a lone one the source itself, where it makes single rows."""
    source, before = run.source, len(run.recomputation.rounds) - 1
    if not before and not source.kept and is_one_blockwise_round(run.recomputation.plan):
        source.fetch()
    state = None if before else source.peek()
    if state is None:
        state = source.new_state()
        if not before:
            source.load(state)
        for number in range(before):
            _advance_round(run, number, state, initial)
        source.release()
    return state


def _differentiate(run: _Run, loss: RowLoss) -> tuple[Tensor, list[Tensor | None]]:
    """The loss, and the gradients of the source's tensors and of the parameters."""
    reach = reach_of(run.recomputation, loss.rows)
    if reach is not None:
        run.source.fetch()
        reach = fitting(reach, run.source) if run.source.by_rows else None
        if reach is not None:
            return through_reach(run.recomputation, reach, run.source, run.parameters, loss)
        run.source.release()
    working, boundaries, kept = None, [], []
    at_once = ends_in_blocks(run.recomputation.plan)
    before_loss = len(run.recomputation.rounds) - at_once  # rounds
    if not before_loss:
        run.source.fetch()
        if run.source.by_rows and is_one_blockwise_round(run.recomputation.plan):
            return through_only_round(run.recomputation, run.source, run.parameters, loss)
    for number in range(before_loss):
        working = run.source.new_state() if working is None else working
        boundary, rows = _advance_round(run, number, working, None)
        assert boundary is not None
        boundaries.append(boundary)
        kept.append(rows)
        del rows
    if at_once:
        ending = run.source if working is None else Boundary(working, None, None, None, copy=False, once=True)
        del working
        backward = BlockwiseBackward(run.recomputation, run.parameters, None, run.source.new_state())
        backward.kept, value = kept, backward.through_last_round(ending, loss)
    else:
        assert working is not None
        backward = BlockwiseBackward(run.recomputation, run.parameters, None, working)
        value, backward.kept = backward.through_rows(loss), kept
        del working
        if before_loss == 1:
            boundaries[0].fetch()
    for number in reversed(range(before_loss)):
        backward.through_round(number, boundaries[number], boundaries[number - 1] if number else None)
    backward.release()
    return value, [*run.source.gradients(backward.grad), *backward.parameter_grads]


def _sum_by_tensor(tensors: Sequence[Tensor], grads: Sequence[Tensor | None]) -> dict[Tensor, Tensor | None]:
    """The gradient of each tensor once: encoder and head may share one, and both may have found a part."""
    found: dict[Tensor, Tensor | None] = {}
    for tensor, grad in zip(tensors, grads):
        found[tensor] = add_gradient(found.get(tensor), grad)
    return found


def _take(ctx: Any) -> list[SavedState]:
    """The saved states, for one backward pass that frees them as it goes."""
    if ctx.boundaries is None:
        raise RuntimeError("A pass whose states are made again can be differentiated once. Got a second backward pass.")
    taken, ctx.boundaries = ctx.boundaries, None
    return taken


def _autocast_type(device: str) -> torch.dtype | None:
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
