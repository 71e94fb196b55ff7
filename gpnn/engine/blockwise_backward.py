"""BlockwiseBackward: gradients through a plan, block by block; RowLoss: a loss that is a sum over rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.csr import slices
from gpnn.engine.block import Block
from gpnn.engine.lowered_phase import Halo
from gpnn.engine.plan import AnyPhase, Plan
from gpnn.engine.recompute import Recomputation, own_rows, round_steps
from gpnn.engine.rows import (
    HeldRows,
    Rows,
    RowsByBlock,
    add_inputs,
    add_rows,
    read_rows,
    step_rows,
    take_rows,
    write_rows,
)
from gpnn.engine.saved_states import SavedState, Source
from gpnn.engine.step import Step
from gpnn.kernels.autograd import first_order
from gpnn.kernels.gated import differentiated_at_once, for_gradients
from gpnn.pages import empty_like


@dataclass(frozen=True, eq=False)
class RowLoss:
    """A sum over some rows of the states after the last round, so that blocks can be differentiated as they are done.

    Attributes:
        rows: their plan rows, distinct, rising, `[n]`, on the device of the states.
        share: the share of some of them, a scalar: a function of their states, `[m, s]`, and of their places in `rows`.
        tensors: what gradients flow to besides the states.
        blocks: the rows by block, where they are known already: what is made for their parts is kept with them.
    """

    rows: Tensor
    share: Callable[[Tensor, slice], Tensor]
    tensors: tuple[Tensor, ...]
    blocks: RowsByBlock | None = None

    @cached_property
    def by_block(self) -> RowsByBlock:
        return RowsByBlock(self.rows) if self.blocks is None else self.blocks


def ends_independently(plan: Plan) -> bool:
    """Whether the last round is one phase that writes every row and whose blocks do not read each other."""
    if not plan.num_rounds or len(plan.rounds[-1]) != 1 or plan.runners is not None:
        return False
    (phase,) = plan.rounds[-1]
    return phase.independent and phase.num_rows == plan.num_nodes + plan.num_virtual


def ends_in_blocks(plan: Plan) -> bool:
    """Whether it :func:`ends_independently` and its blocks are contiguous; builds them."""
    return ends_independently(plan) and all(isinstance(block.rows, slice) for block in plan.rounds[-1][0].chunks)


MOST_HELD = 3  # held edges per row, up to which blocks make what they read of each other's rows themselves


def is_one_blockwise_round(plan: Plan) -> bool:
    """Whether its only round :func:`ends_independently`, and blocks read few rows of each other."""
    if plan.num_rounds != 1 or not ends_independently(plan):
        return False
    (phase,) = plan.rounds[0]
    return phase.num_held <= MOST_HELD * phase.num_rows


class Differentiated(Function):
    """A value whose gradients are known already: the backward pass hands them on."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, grads: list[Tensor | None], *tensors: Tensor) -> Tensor:
        ctx.grads = grads
        return value.clone()

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if each is None else each * grad.to(each.dtype) for each in ctx.grads)
        return None, None, *scaled


@contextmanager
def without_hooks(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Differentiate blocks without calling the hooks of `tensors`; autograd calls them once, with the sum returned.

    A hook that is not linear (a clamp) would give each block's share another gradient than their sum.
    """
    hooked = {tensor: tensor._backward_hooks for tensor in tensors if tensor.is_leaf and tensor._backward_hooks}
    for tensor in hooked:
        tensor._backward_hooks = None
    try:
        yield
    finally:
        for tensor, hooks in hooked.items():
            tensor._backward_hooks = hooks


class BlockwiseBackward:
    """The gradients of the state, of the initial state and of the parameters as far as the pass has come.

    Args:
        recomputation: does the steps again.
        parameters: the tensors besides the states that gradients flow to.
        initial: the states before the first round, `[N + V, d]`, where steps need them.
        grad: the gradient of the last state but for what :meth:`add` adds, `[N + V, s]`; it is overwritten.
    """

    def __init__(
        self,
        recomputation: Recomputation,
        parameters: tuple[Tensor, ...],
        initial: Tensor | None,
        grad: Tensor,
    ) -> None:
        self.recomputation, self.parameters, self.initial, self.grad = recomputation, parameters, initial, grad
        self.needs_states = not getattr(recomputation.cell, "is_linear", False)  # for gradients
        self._buffer: Tensor | None = None
        self.state: Tensor | Rows = grad[:0]  # where the pass stands, `[N + V, s]`
        self.initial_grad = None if initial is None else torch.zeros_like(initial)
        self.parameter_grads: list[Tensor | None] = [None] * len(parameters)
        self.kept: list[Tensor | None] = []  # by round: the rows that the second of its two phases reads, `[m, s]`

    def add(self, grad: Tensor | None, rows: Tensor | None = None) -> None:
        """Add the gradient of the state that the pass has come to, or of some of its rows, which are distinct."""
        if rows is not None:
            add_rows(self.grad, rows, grad)
        elif grad is not None:
            self.grad += grad

    def through_round(self, number: int, boundary: SavedState, previous: SavedState | None = None) -> None:
        """Turn the gradient after a round into that before it; `previous`, the state a round before, is prefetched."""
        phases = list(round_steps(self.recomputation.rounds[number], number))
        known = self.kept.pop() if number < len(self.kept) else None
        if not self.needs_states:
            for phase, steps in reversed(phases):
                self._through_phase(phase, steps)
            boundary.drop()
            return
        if not phases:
            return
        overwritten: list[Tensor] = []
        if known is not None:
            self.state = self._own_state()
            write_rows(self.state, phases[1][0].input_rows, known)
        for position, (phase, steps) in enumerate(phases[:-1] if known is None else []):
            if position == 0:
                self._redo_first(boundary, phase, steps, phases[1][0].input_rows if len(phases) == 2 else None)
            else:
                overwritten.append(read_rows(self.state, phase.row_index))
                self.recomputation.do_phase(phase, steps, self._written_state, self.initial)
        del known
        for (phase, steps), rows in zip(reversed(phases[1:]), [None, *reversed(overwritten)]):
            if rows is not None:
                write_rows(self._written_state, phase.row_index, rows)
            self._through_phase(phase, steps)
        self._load_state(boundary, phases[0][0])
        if previous is not None:
            previous.fetch()
        self._through_phase(*phases[0])
        boundary.drop()

    def through_last_round(self, boundary: SavedState, loss: RowLoss) -> Tensor:
        """The loss of the states after the last round, whose gradient becomes that before it.

        Each block of the round is differentiated as soon as it is done: nothing is computed twice, and what blocks
        receive is added where it stands.
        """
        ((phase, steps),) = round_steps(self.recomputation.rounds[-1], len(self.recomputation.rounds) - 1)
        self._load_state(boundary, phase)
        self.grad.zero_()

        def through(number: int, block: Block) -> tuple[Tensor | None, Tensor | None, list[Tensor | None]]:
            return self._through_loss(block, number, steps, loss)

        shares, blocks = [], iter(self.recomputation.pieces(phase))
        for found in self.recomputation.each(phase, through):
            share, grad, grads = found
            if share is not None:
                shares.append(share)
            add_inputs(self.grad, next(blocks), grad)
            self._add_to_parameters(grads)
            del found, grad, grads  # before the next block is differentiated
        boundary.drop()
        return torch.stack(shares).sum() if shares else self.grad.new_zeros((), dtype=torch.float32)

    def through_rows(self, loss: RowLoss) -> Tensor:
        """The loss of the states after the last round, which stand where their gradient will and give way to it."""
        shares, first = [], 0
        for places in slices(len(loss.rows), step_rows(self.grad.device)):
            rows = loss.rows[places]
            own, last = rows.to(self.grad.device), int(rows[-1]) + 1
            with torch.enable_grad():
                states = read_rows(self.grad, own).requires_grad_()
                share = loss.share(states, places)
            grads: list[Tensor | None] = list(torch.autograd.grad(share, [states, *self.parameters], allow_unused=True))
            self.grad[first:last] = 0  # rows rise: no later one is among these
            add_rows(self.grad, own, grads.pop(0))
            self._add_to_parameters(grads)
            shares.append(share.detach())
            first = last
        self.grad[first:] = 0
        return torch.stack(shares).sum() if shares else self.grad.new_zeros((), dtype=torch.float32)

    def _through_loss(
        self, block: Block, number: int, steps: list[Step], loss: RowLoss
    ) -> tuple[Tensor | None, Tensor | None, list[Tensor | None]]:
        """A block's share of the loss, the gradients of the rows that it reads, `[m, s]`, and of the parameters."""
        assert isinstance(block.rows, slice)
        places, wanted = loss.by_block.of(block.rows)
        if places.start == places.stop:
            return None, None, [None] * len(self.parameters)
        with torch.enable_grad(), differentiated_at_once():
            inputs = read_rows(self.state, block.inputs).detach().requires_grad_()
            share = loss.share(self.recomputation.advance(block, number, inputs, steps, None, wanted), places)
        grads: list[Tensor | None] = list(torch.autograd.grad(share, [inputs, *self.parameters], allow_unused=True))
        return share.detach(), grads.pop(0), grads

    def _redo_first(self, boundary: SavedState, phase: AnyPhase, steps: list[Step], needed: Tensor | None) -> None:
        """Let the state be that after the first phase of a round, in the rows that are needed, `[m]`; None: in all."""
        at_hand, self.state = boundary.peek(), self._own_state()
        if at_hand is None or phase.num_rows < len(self.grad):
            boundary.load(self.state)
        by_block = RowsByBlock(needed) if needed is not None and self.recomputation.chooses_rows(phase) else None
        self.recomputation.do_phase(phase, steps, self.state, self.initial, at_hand, by_block)

    def _load_state(self, boundary: SavedState, phase: AnyPhase) -> None:
        """Let the state be that of a boundary; it is copied where the phase is done again in place."""
        written = phase.repeat > 1 and not self.recomputation.blocks_are_independent(phase)
        at_hand = None if written else boundary.peek()
        if at_hand is not None:
            self.state, self._buffer = at_hand, None
            return
        self.state = self._own_state()
        boundary.load(self.state)
        boundary.drop()

    def release(self) -> None:
        """Free the state that the pass has come to: no further round will be gone through."""
        self.state, self._buffer = self.grad[:0], None

    def _own_state(self) -> Tensor:
        if self._buffer is None:
            self._buffer = empty_like(self.grad)
        return self._buffer

    @property
    def _written_state(self) -> Tensor:
        assert isinstance(self.state, Tensor)
        return self.state

    def _through_phase(self, phase: AnyPhase, steps: list[Step]) -> None:
        """The same for one phase; the state stands before it, and is left anywhere inside it."""
        if phase.halo is not None:
            self._through_held_phase(phase, phase.halo, steps)
            return
        if self.recomputation.blocks_are_independent(phase):
            for grads in self.recomputation.each(phase, partial(self._through_lone_block, steps)):
                self._add_to_parameters(grads)
            return
        if not self.needs_states:
            for step in reversed(steps):
                self._through_joint_step(phase, step)
            return
        overwritten = []
        for step in steps[:-1]:
            overwritten.append(read_rows(self.state, phase.row_index))
            self.recomputation.do_phase(phase, [step], self._written_state, self.initial)
        self._through_joint_step(phase, steps[-1])
        for step, rows in zip(reversed(steps[:-1]), reversed(overwritten)):
            write_rows(self._written_state, phase.row_index, rows)
            self._through_joint_step(phase, step)

    def _through_lone_block(self, steps: list[Step], number: int, block: Block) -> list[Tensor | None]:
        """The gradients of the parameters in a block that no other touches."""
        if block.num_inputs == block.num_rows:  # it reads only what it writes: its gradient takes the old one's place
            grad, grads = self._through_block(block, number, steps, read_rows(self.grad, block.rows))
            if grad is None:
                take_rows(self.grad, block.rows)
            else:
                write_rows(self.grad, block.rows, grad)
            return grads
        grad, grads = self._through_block(block, number, steps, take_rows(self.grad, block.rows))
        add_rows(self.grad, block.inputs, grad)
        return grads

    def _through_held_phase(self, phase: AnyPhase, halo: Halo, steps: list[Step]) -> None:
        """A phase whose blocks read each other's rows as they were at its start: what these receive is added last."""
        received = empty_like(self.grad[: len(halo.rows)]).zero_()

        def through(number: int, block: Block) -> tuple[Tensor | None, list[Tensor | None]]:
            grad, grads = self._through_block(block, number, steps, read_rows(self.grad, block.rows))
            own = self.grad.new_zeros(1) if grad is None else grad[: block.num_rows]
            write_rows(self.grad, block.rows, own.expand(block.num_rows, self.grad.shape[1]))
            return None if grad is None else grad[block.num_rows :], grads

        places = iter(halo.places)
        for found in self.recomputation.each(phase, through):
            grad, grads = found
            add_rows(received, next(places), grad)
            self._add_to_parameters(grads)
            del found, grad, grads  # before the next block is differentiated
        add_rows(self.grad, halo.rows, received)

    def _through_joint_step(self, phase: AnyPhase, step: Step) -> None:
        """One step whose blocks read each other's rows: take all their gradients before any is replaced."""
        pieces = self.recomputation.pieces(phase)
        if phase.num_rows == len(self.grad):
            before, self.grad = self.grad, empty_like(self.grad).zero_()
            received = lambda number: read_rows(before, pieces[number].rows)  # noqa: E731
        else:
            held = HeldRows(pieces, self.grad)
            for number, block in enumerate(pieces):
                held.put(number, take_rows(self.grad, block.rows))
            received = held.pop

        def through(number: int, block: Block) -> tuple[Tensor | None, list[Tensor | None]]:
            return self._through_block(block, number, [step], received(number))

        for block, (grad, grads) in zip(pieces, self.recomputation.each(phase, through)):
            add_rows(self.grad, block.inputs, grad)
            self._add_to_parameters(grads)

    def _through_block(
        self, block: Block, number: int, steps: list[Step], received: Tensor
    ) -> tuple[Tensor | None, list[Tensor | None]]:
        """Gradients of the rows that a block reads, `[m, s]`, and of the parameters, by that of the rows it writes."""
        with torch.enable_grad():
            inputs = self._inputs(block).detach().requires_grad_()
            initial = own_rows(self.initial, block)
            initial = None if initial is None else initial.detach().requires_grad_()
            with self._only_gradients():
                output = self.recomputation.advance(block, number, inputs, steps, initial)
        wanted = [inputs, *([] if initial is None else [initial]), *self.parameters]
        grads: list[Tensor | None] = list(torch.autograd.grad(output, wanted, received, allow_unused=True))
        grad_inputs = grads.pop(0)
        if self.initial_grad is not None:
            add_rows(self.initial_grad, block.rows, grads.pop(0))
        return grad_inputs, grads

    def _inputs(self, block: Block) -> Tensor:
        """What a block reads, `[m, s]`; where no gradient follows from states, any numbers."""
        if self.needs_states:
            return read_rows(self.state, block.inputs)
        return self.grad.new_zeros(1, 1).expand(block.num_inputs, self.grad.shape[1])

    def _add_to_parameters(self, grads: list[Tensor | None]) -> None:
        for position, grad in enumerate(grads):
            self.parameter_grads[position] = add_gradient(self.parameter_grads[position], grad)

    def _only_gradients(self) -> AbstractContextManager[None]:
        """Rows whose values nobody reads need not be computed, where the cell hands them on as they are."""
        return for_gradients() if getattr(self.recomputation.cell, "returns_kernel_output", False) else nullcontext()


def through_only_round(
    recomputation: Recomputation, source: Source, parameters: tuple[Tensor, ...], loss: RowLoss
) -> tuple[Tensor, list[Tensor | None]]:
    """The loss after a lone round in blocks, and the gradients of the source's tensors and of the parameters.

    A block makes the states that it reads, those of other blocks' rows too, and is differentiated at once through them:
    no state and no gradient of a state is there for all rows. A block without a row of the loss is left out.
    """
    ((phase, steps),) = round_steps(recomputation.rounds[0], 0)
    tensors = tuple(dict.fromkeys((*source.tensors, *parameters)))  # encoder and head may share one

    def through(number: int, block: Block) -> tuple[Tensor, tuple[Tensor | None, ...]] | None:
        assert isinstance(block.rows, slice)
        places, wanted = loss.by_block.of(block.rows)
        if places.start == places.stop:
            return None
        with torch.enable_grad(), differentiated_at_once():
            last = recomputation.advance(block, number, source.make(block.inputs), steps, None, wanted)
            share = loss.share(last, places)
        return share.detach(), torch.autograd.grad(share, tensors, allow_unused=True)

    totals: dict[Tensor, Tensor | None] = dict.fromkeys(tensors)
    shares = [torch.zeros((), device=recomputation.plan.device)]
    for found in recomputation.each(phase, through):
        if found is not None:
            shares.append(found[0].float())
            totals = {each: add_gradient(totals[each], grad) for each, grad in zip(tensors, found[1])}
    grads = [totals.pop(each, None) for each in (*source.tensors, *parameters)]
    return torch.stack(shares).sum(), grads


def add_gradient(total: Tensor | None, value: Tensor | None) -> Tensor | None:
    """None stays None, so that a parameter that no step used has no gradient, as under autograd."""
    if value is None or total is None:
        return total if value is None else value.clone()  # autograd may give two parameters one gradient
    return total.add_(value)
