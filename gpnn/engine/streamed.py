"""The streamed runner: one block at a time, recomputed in the backward pass.

Forward saves the state at the start of each round and nothing else. Backward takes the rounds from last to first: it
recomputes a round up to its last phase without gradients, then goes back through the phases, restoring the state
before each and differentiating one block at a time. Besides the round-boundary states, one working state and its
gradient, memory follows the largest block; a phase whose blocks read each other's rows also holds a copy of the rows
that it writes, and one that holds messages a copy, then the gradient, of the rows that blocks read of each other. A
round of one phase with blocks of its own writes no state: it is read where it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.engine.blockwise_backward import BlockwiseBackward
from gpnn.engine.plan import Plan
from gpnn.engine.recompute import Recomputation, round_steps
from gpnn.engine.saved_states import Boundary
from gpnn.engine.step import CellLike
from gpnn.kernels.first_order import first_order
from gpnn.pages import empty_like


@dataclass(frozen=True)
class Streamed:
    """The streamed runner, and how it saves the round-boundary states.

    Attributes:
        dtype: the type they are stored in, such as `torch.bfloat16`; None keeps the state's own, and then the
            recomputed pass is exact.
        device: the device they are stored on, such as "cpu" for a plan on a GPU; None leaves them where they are.
        folder: a folder for memory-mapped files that hold them instead of memory, or None.
    """

    dtype: torch.dtype | None = None
    device: str | None = None
    folder: Path | str | None = None
    recomputes: ClassVar[bool] = True

    def __call__(
        self, cell: CellLike, plan: Plan, state: Tensor, *, initial: Tensor | None, collect: bool
    ) -> list[Tensor]:
        """The working state after each round, or after the last one only, in plan order, `[N + V, s]`."""
        parameters = tuple(p for p in cell.parameters() if p.requires_grad)
        differentiable = (state, *parameters) if initial is None else (state, initial, *parameters)
        saves = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in differentiable)
        seed = int(torch.randint(2**62, ())) if cell.random else None
        run = _Run(Recomputation(cell, plan, seed), self, parameters, collect, saves, _autocast_type(state.device.type))
        return list(_Propagation.apply(run, state, initial, *parameters))

    def save(self, state: Tensor, *, copy: bool) -> Boundary:
        """`state` as it is stored; `copy` says whether it will be overwritten."""
        return Boundary(state, self.dtype, self.device, self.folder, copy=copy)


@dataclass(frozen=True)
class _Run:
    """What one propagation needs besides its tensors."""

    recomputation: Recomputation
    settings: Streamed
    parameters: tuple[Tensor, ...]
    collect: bool
    saves: bool  # whether there will be a backward pass
    half: torch.dtype | None  # autocast's type, in which the backward pass must repeat the forward one


class _Propagation(Function):
    @staticmethod
    def forward(ctx: Any, run: _Run, state: Tensor, initial: Tensor | None, *parameters: Tensor) -> tuple[Tensor, ...]:
        working, boundaries, outputs = empty_like(state).copy_(state), [], []
        rounds = run.recomputation.rounds
        for number, phases in enumerate(rounds):
            if run.saves:
                boundaries.append(run.settings.save(working if number else state, copy=number > 0))
            for phase, steps in round_steps(phases, number):
                before = state if number == steps[0].phase == 0 else None  # what the pass begins from stays as it is
                run.recomputation.do_phase(phase, steps, working, initial, before)
            if run.collect and number + 1 < len(rounds):
                outputs.append(working.clone())
        ctx.run, ctx.boundaries = run, boundaries
        # a boundary that is the given state itself must not change under us: autograd checks what it saves
        ctx.save_for_backward(state if run.settings == Streamed() else None, initial)
        return *outputs, working

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        run: _Run = ctx.run
        _, initial = ctx.saved_tensors
        given = next(grad for grad in grads if grad is not None)
        backward = BlockwiseBackward(run.recomputation, run.parameters, initial, empty_like(given).zero_())
        num_rounds = len(ctx.boundaries)
        skipped: list[Tensor | None] = [None] * (num_rounds - len(grads))
        received = [*skipped, *grads]
        # no cache: older torch would reuse weights that a recomputation without gradients has cast, and lose theirs
        with torch.autocast(given.device.type, dtype=run.half, enabled=run.half is not None, cache_enabled=False):
            for number in reversed(range(num_rounds)):
                backward.add(received[number])
                backward.through_round(number, ctx.boundaries[number])
        return None, backward.grad, backward.initial_grad, *backward.parameter_grads


def _autocast_type(device: str) -> torch.dtype | None:
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
