"""The streamed runner: one block at a time, recomputed in the backward pass.

Forward keeps the state at the start of each round and nothing else. Backward takes the rounds from last to first: it
replays a round up to its last phase without gradients, then walks the phases back, restoring the state before each and
differentiating one block at a time. Besides the round-boundary states, one working state and its gradient, memory
follows the largest block; a phase whose blocks read each other's rows also holds a copy of the rows that it writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from gpnn.engine.block import Block
from gpnn.engine.boundary import Boundary
from gpnn.engine.plan import LoweredPhase, Plan
from gpnn.engine.step import CellLike, Step


@dataclass(frozen=True)
class Streamed:
    """The streamed runner, and how it keeps the round-boundary states.

    Attributes:
        dtype: the type they are stored in, such as `torch.bfloat16`; None keeps the state's own, and then the
            recomputed pass is exact.
        device: the device they are stored on, such as "cpu" for a plan on a GPU; None leaves them where they are.
        folder: a folder for memory-mapped files that hold them instead of memory, or None.
    """

    dtype: torch.dtype | None = None
    device: str | None = None
    folder: Path | str | None = None

    def __call__(
        self, cell: CellLike, plan: Plan, state: Tensor, *, initial: Tensor | None, collect: bool
    ) -> list[Tensor]:
        """The working state after each round, or after the last one only, in plan order, `[N + V, s]`."""
        parameters = tuple(p for p in _parameters(cell) if p.requires_grad)
        run = _Run(cell, plan, self, parameters, collect)
        return list(_Propagation.apply(run, state, initial, *parameters))


@dataclass(frozen=True)
class _Run:
    """What one propagation needs besides its tensors."""

    cell: CellLike
    plan: Plan
    settings: Streamed
    parameters: tuple[Tensor, ...]
    collect: bool


class _Propagation(Function):
    @staticmethod
    def forward(ctx: Any, run: _Run, state: Tensor, initial: Tensor | None, *parameters: Tensor) -> tuple[Tensor, ...]:
        working, boundaries, outputs = state.clone(), [], []
        for number, phases in enumerate(run.plan.rounds):
            settings = run.settings
            source = working if number else state
            boundaries.append(Boundary(source, settings.dtype, settings.device, settings.folder, copy=number > 0))
            for phase in phases:
                _do_phase(run.cell, phase, number, working, initial)
            if run.collect and number + 1 < len(run.plan.rounds):
                outputs.append(working.clone())
        ctx.run, ctx.boundaries = run, boundaries
        ctx.save_for_backward(state, initial)
        return *outputs, working

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        run: _Run = ctx.run
        state, initial = ctx.saved_tensors
        sweep = _Sweep(run, initial, state)
        skipped: list[Tensor | None] = [None] * (run.plan.num_rounds - len(grads))
        received = [*skipped, *grads]
        for number in reversed(range(run.plan.num_rounds)):
            sweep.add(received[number])
            sweep.through_round(number, ctx.boundaries[number])
        return None, sweep.grad, sweep.initial_grad, *sweep.parameter_grads


class _Sweep:
    """The backward walk: gradients of the state, of the initial state and of the parameters so far."""

    def __init__(self, run: _Run, initial: Tensor | None, like: Tensor) -> None:
        self.run, self.initial = run, initial
        self.state = torch.empty_like(like)
        self.grad = torch.zeros_like(like)
        self.initial_grad = None if initial is None else torch.zeros_like(initial)
        self.parameter_grads = tuple(torch.zeros_like(p) for p in run.parameters)

    def add(self, grad: Tensor | None) -> None:
        if grad is not None:
            self.grad += grad

    def through_round(self, number: int, boundary: Boundary) -> None:
        """Turn the gradient after a round into that before it."""
        phases = self.run.plan.rounds[number]
        if not phases:
            return
        boundary.load(self.state)
        overwritten: list[Tensor | None] = []
        for position, phase in enumerate(phases[:-1]):
            overwritten.append(self.state[phase.row_index] if position else None)  # the first is the boundary's
            _do_phase(self.run.cell, phase, number, self.state, self.initial)
        self._through_phase(phases[-1], number)
        for phase, rows in zip(reversed(phases[:-1]), reversed(overwritten)):
            if rows is None:
                boundary.load(self.state)
            else:
                self.state[phase.row_index] = rows
            self._through_phase(phase, number)

    def _through_phase(self, phase: LoweredPhase, number: int) -> None:
        """The same for one phase; the state stands before it, and is left anywhere inside it."""
        steps = [Step(number, phase.kind, repeat) for repeat in range(phase.repeat)]
        if phase.independent:
            for block in phase.blocks:
                received = self.grad[block.rows].clone()
                self.grad[block.rows] = 0
                self._through_block(block, steps, received)
            return
        overwritten = []
        for step in steps[:-1]:
            overwritten.append(self.state[phase.row_index])
            _do_jointly(self.run.cell, phase, step, self.state, self.initial)
        self._through_joint_step(phase, steps[-1])
        for step, rows in zip(reversed(steps[:-1]), reversed(overwritten)):
            self.state[phase.row_index] = rows
            self._through_joint_step(phase, step)

    def _through_joint_step(self, phase: LoweredPhase, step: Step) -> None:
        """One step whose blocks read each other's rows: take all their gradients before any is replaced."""
        received = self.grad[phase.row_index]
        self.grad[phase.row_index] = 0
        start = 0
        for block in phase.blocks:
            self._through_block(block, [step], received[start : start + block.num_rows])
            start += block.num_rows

    def _through_block(self, block: Block, steps: list[Step], received: Tensor) -> None:
        """Differentiate one block, given the gradient of the rows that it writes, `[n, s]`."""
        with torch.enable_grad():
            inputs = block.read(self.state).detach().requires_grad_()
            initial = None if self.initial is None else self.initial[block.rows].detach().requires_grad_()
            output = _run_block(self.run.cell, block, inputs, steps, initial)
        wanted = [inputs, *([] if initial is None else [initial]), *self.run.parameters]
        grads = list(torch.autograd.grad(output, wanted, received, allow_unused=True))
        _add_rows(self.grad, block.inputs, grads.pop(0))
        if self.initial_grad is not None:
            _add_rows(self.initial_grad, block.rows, grads.pop(0))
        for total, grad in zip(self.parameter_grads, grads):
            if grad is not None:
                total += grad


def _do_phase(cell: CellLike, phase: LoweredPhase, number: int, state: Tensor, initial: Tensor | None) -> None:
    """Do one phase with all its repeats, in place and without gradients."""
    steps = [Step(number, phase.kind, repeat) for repeat in range(phase.repeat)]
    if not phase.independent:
        for step in steps:
            _do_jointly(cell, phase, step, state, initial)
        return
    for block in phase.blocks:
        own = None if initial is None else initial[block.rows]
        state[block.rows] = _run_block(cell, block, block.read(state), steps, own)


def _do_jointly(cell: CellLike, phase: LoweredPhase, step: Step, state: Tensor, initial: Tensor | None) -> None:
    """One step of blocks that read each other's rows: compute all of them, then write."""
    updated = state.new_empty(phase.nodes.numel(), state.shape[1])
    start = 0
    for block in phase.blocks:
        own = None if initial is None else initial[block.rows]
        updated[start : start + block.num_rows] = _run_block(cell, block, block.read(state), [step], own)
        start += block.num_rows
    state[phase.row_index] = updated


def _run_block(cell: CellLike, block: Block, inputs: Tensor, steps: list[Step], initial: Tensor | None) -> Tensor:
    """The rows that `block` writes after all `steps`, `[n, s]`."""
    rows, others = inputs[: block.num_rows], inputs[block.num_rows :]
    for position, step in enumerate(steps):
        if position:
            inputs = torch.cat([rows, others]) if len(others) else rows
        rows = cell.advance(block, inputs, step._replace(initial=initial))
    return rows


def _add_rows(total: Tensor, rows: Tensor | slice, values: Tensor | None) -> None:
    if values is None:
        return
    if isinstance(rows, slice):
        total[rows] += values
    else:
        total.index_add_(0, rows, values)


def _parameters(cell: CellLike) -> Iterator[Tensor]:
    return cell.parameters() if isinstance(cell, torch.nn.Module) else iter(())
