"""Sweep: gradients carried back through a plan, round by round, phase by phase, block by block."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from gpnn.engine.block import Block
from gpnn.engine.boundary import Kept
from gpnn.engine.replay import AnyPhase, Replay, own_rows, phase_steps
from gpnn.engine.rows import add_rows, read_rows, take_rows, write_rows
from gpnn.engine.step import Step
from gpnn.kernels.gated import for_gradients


class Sweep:
    """The gradients of the state, of the initial state and of the parameters as far as the sweep has come.

    Args:
        replay: does the steps again.
        parameters: the tensors besides the states that gradients flow to.
        initial: the states before the first round, `[N + V, d]`, where steps need them.
        grad: the gradient of the last state but for what :meth:`add` adds, `[N + V, s]`; it is overwritten.
        state: room for a state, `[N + V, s]`, or None: it is made.
    """

    def __init__(
        self,
        replay: Replay,
        parameters: tuple[Tensor, ...],
        initial: Tensor | None,
        grad: Tensor,
        state: Tensor | None = None,
    ) -> None:
        self.replay, self.parameters, self.initial, self.grad = replay, parameters, initial, grad
        self.state = torch.empty_like(grad) if state is None else state
        self.initial_grad = None if initial is None else torch.zeros_like(initial)
        self.parameter_grads: list[Tensor | None] = [None] * len(parameters)

    def add(self, grad: Tensor | None) -> None:
        """Add the gradient of the state that the sweep stands at."""
        if grad is not None:
            self.grad += grad

    def through_round(self, number: int, boundary: Kept) -> None:
        """Turn the gradient after a round into that before it."""
        phases = [(phase, phase_steps(phase, number, at)) for at, phase in enumerate(self.replay.rounds[number])]
        if not phases:
            return
        boundary.load(self.state)
        overwritten: list[Tensor | None] = []
        for position, (phase, steps) in enumerate(phases[:-1]):
            overwritten.append(self.state[phase.row_index] if position else None)  # the first is the boundary's
            self.replay.do_phase(phase, steps, self.state, self.initial)
        if len(phases) == 1:
            boundary.drop()
        self._through_phase(*phases[-1])
        for (phase, steps), rows in zip(reversed(phases[:-1]), reversed(overwritten)):
            if rows is None:
                boundary.load(self.state)
                boundary.drop()
            else:
                self.state[phase.row_index] = rows
            self._through_phase(phase, steps)

    def _through_phase(self, phase: AnyPhase, steps: list[Step]) -> None:
        """The same for one phase; the state stands before it, and is left anywhere inside it."""
        if self.replay.finishes_blocks(phase):
            for number, block in enumerate(self.replay.pieces(phase)):
                self._through_lone_block(block, number, steps)
            return
        overwritten = []
        for step in steps[:-1]:
            overwritten.append(self.state[phase.row_index])
            self.replay.do_phase(phase, [step], self.state, self.initial)
        self._through_joint_step(phase, steps[-1])
        for step, rows in zip(reversed(steps[:-1]), reversed(overwritten)):
            self.state[phase.row_index] = rows
            self._through_joint_step(phase, step)

    def _through_lone_block(self, block: Block, number: int, steps: list[Step]) -> None:
        """A block that no other touches."""
        if block.num_inputs == block.num_rows:  # it reads only what it writes: its gradient takes the old one's place
            grad = self._through_block(block, number, steps, read_rows(self.grad, block.rows))
            if grad is None:
                take_rows(self.grad, block.rows)
            else:
                write_rows(self.grad, block.rows, grad)
            return
        received = take_rows(self.grad, block.rows)
        add_rows(self.grad, block.inputs, self._through_block(block, number, steps, received))

    def _through_joint_step(self, phase: AnyPhase, step: Step) -> None:
        """One step whose blocks read each other's rows: take all their gradients before any is replaced."""
        received = [take_rows(self.grad, block.rows) for block in self.replay.pieces(phase)]
        for number, block in enumerate(self.replay.pieces(phase)):
            add_rows(self.grad, block.inputs, self._through_block(block, number, [step], received[number]))

    def _through_block(self, block: Block, number: int, steps: list[Step], received: Tensor) -> Tensor | None:
        """The gradient of the rows that a block reads, `[m, s]`, given that of the rows that it writes, `[n, s]`."""
        with torch.enable_grad():
            inputs = read_rows(self.state, block.inputs).detach().requires_grad_()
            initial = own_rows(self.initial, block)
            initial = None if initial is None else initial.detach().requires_grad_()
            with self._only_gradients(steps):
                output = self.replay.advance(block, number, inputs, steps, initial)
        wanted = [inputs, *([] if initial is None else [initial]), *self.parameters]
        grads = list(torch.autograd.grad(output, wanted, received, allow_unused=True))
        grad_inputs = grads.pop(0)
        if self.initial_grad is not None:
            add_rows(self.initial_grad, block.rows, grads.pop(0))
        for position, grad in enumerate(grads):
            self.parameter_grads[position] = _add(self.parameter_grads[position], grad)
        return grad_inputs

    def _only_gradients(self, steps: list[Step]) -> AbstractContextManager[None]:
        """A step whose value nobody reads need not be computed, where the cell hands it on as it is."""
        alone = len(steps) == 1 and getattr(self.replay.cell, "hands_on", False)
        return for_gradients() if alone else nullcontext()


def _add(total: Tensor | None, value: Tensor | None) -> Tensor | None:
    """None stays None, so that a parameter that no step used has no gradient, as under autograd."""
    if value is None or total is None:
        return total if value is None else value.clone()  # autograd may give two parameters one gradient
    return total.add_(value)
