"""All steps of a block of a gated graph network in one go, on the CPU: of one block, or of all blocks of a phase.

A block that fits a core's cache takes all its steps there. The backward pass makes them again from the block's inputs
and keeps their gates until it has gone back through them, so that no product is made a third time: nothing but the
inputs is kept between the passes, unless the one follows the other at once, or memory is spent on it. What held senders
bring is summed once, and its gradient is sent back once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.autograd import first_order
from gpnn.kernels.cpu import add_rows, add_weighted_sum, factors, gather_rows, put_rows, weighted_sum
from gpnn.kernels.cpu_gates import GateGradients, Gates, GateWeights, add_up, chunk_rows, thread_buffer, update_rows
from gpnn.kernels.execution import share_calls
from gpnn.kernels.gated import Piece, StepUse
from gpnn.kernels.operator import Operator
from gpnn.pages import empty_large

MOST_BYTES = 1 << 27  # of what the backward pass of a block holds, per thread; a larger block goes step by step


def fits(inputs: Tensor, num_rows: int, repeat: int) -> bool:
    """Whether the backward pass of so many steps over a block is small enough to be done in one go."""
    per_row = 6 * inputs.shape[1] * inputs.element_size()  # a state, a message and four gates
    return repeat * num_rows * per_row <= MOST_BYTES


class GatedSteps(Function):
    """`repeat` times :func:`gpnn.kernels.gated.gated_step` of the first rows; the others are held as they are."""

    @staticmethod
    def forward(
        ctx: Any,
        operator: Operator,
        diagonal: Tensor | None,
        use: StepUse,
        repeat: int,
        inputs: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        inputs = inputs.detach().contiguous()
        ctx.operator, ctx.diagonal, ctx.repeat, ctx.rows = operator, diagonal, repeat, use.rows
        ctx.save_for_backward(inputs, *parameters)
        if not use.values:
            ctx.done, num_rows = None, operator.shape[0] if use.rows is None else len(use.rows)
            return inputs.new_zeros(1, 1).expand(num_rows, inputs.shape[1])
        out, ctx.done = _advance(_Steps(operator, diagonal, inputs, parameters, use.rows), use, repeat)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, *parameters = ctx.saved_tensors
        done, ctx.done = ctx.done, None  # it is overwritten
        if done is None:
            done = _Steps(ctx.operator, ctx.diagonal, inputs, parameters, ctx.rows).compute(ctx.repeat)
        grad_inputs, totals = _differentiate(done, grad)
        return None, None, None, None, grad_inputs, *totals.as_parameters()


class GatedBlocks(Function):
    """The same for all blocks of a phase, which read the rows of one state; threads share the blocks.

    Gives the rows that update, block by block, `[n, d]`. `begun` is the states' share of the first step's gates, in the
    same order, `[n, 3d]`, or None.
    """

    @staticmethod
    def forward(
        ctx: Any,
        pieces: tuple[Piece, ...],
        use: StepUse,
        repeat: int,
        state: Tensor,
        begun: Tensor | None,
        *parameters: Tensor,
    ) -> Tensor:
        ctx.pieces, ctx.repeat, ctx.begun = pieces, repeat, begun is not None
        ctx.save_for_backward(state, *parameters)
        ends = np.cumsum([piece.operator.shape[0] for piece in pieces]).tolist()
        out = empty_large(ends[-1], state.shape[1], dtype=state.dtype)

        def do(number: int) -> _Done | None:
            own = slice(ends[number] - pieces[number].operator.shape[0], ends[number])
            known = None if begun is None else begun[own]
            out[own], done = _advance(_steps_of(pieces[number], state, parameters), use, repeat, known)
            return done

        ctx.done = list(share_calls(len(pieces), do))
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        state, *parameters = ctx.saved_tensors
        pieces, finished = ctx.pieces, ctx.done
        ctx.done = [None] * len(pieces)  # they are overwritten
        sizes = [piece.operator.shape[0] for piece in pieces]
        received, begun = grad.split(sizes), grad.new_empty(len(grad), 3 * grad.shape[1] if ctx.begun else 0)
        to_begun = begun.split(sizes)

        def do(number: int) -> tuple[Tensor, GateGradients]:
            done, finished[number] = finished[number], None
            if done is None:
                done = _steps_of(pieces[number], state, parameters).compute(ctx.repeat)
            return _differentiate(done, received[number], to_begun[number] if ctx.begun else None)

        grad_state = empty_large(*state.shape, dtype=state.dtype).zero_()
        parts = []
        for piece, (grad_inputs, totals) in zip(pieces, share_calls(len(pieces), do)):
            own = piece.operator.shape[0]  # a row may be read twice, as it changes and as it was
            add_rows(grad_state, piece.inputs[:own], grad_inputs[:own])
            add_rows(grad_state, piece.inputs[own:], grad_inputs[own:])
            parts.append(totals)
        return None, None, None, grad_state, begun if ctx.begun else None, *add_up(parts).as_parameters()


def _steps_of(piece: Piece, state: Tensor, parameters: tuple[Tensor, ...] | list[Tensor]) -> _Steps:
    return _Steps(piece.operator, piece.diagonal, gather_rows(state, piece.inputs), parameters)


def _advance(steps: _Steps, use: StepUse, repeat: int, begun: Tensor | None = None) -> tuple[Tensor, _Done | None]:
    """The rows after all steps, `[n, d]`, and what their backward pass overwrites; None: it makes the steps again."""
    state = steps.inputs[: steps.num_rows]
    if use.gradients and (use.at_once or use.stored):
        last = torch.empty_like(state) if steps.rows is None else state.new_empty(len(steps.rows), state.shape[1])
        return last, steps.compute(repeat, last, buffered=use.at_once, begun=begun)
    messages, out = torch.empty_like(state), [torch.empty_like(state) for _ in range(min(repeat, 2))]
    sums = state.new_empty(min(len(state), steps.chunk), 4 * state.shape[1])
    for step in range(repeat):
        steps.aggregate(state, messages)
        own, received = steps.choose(step + 1 == repeat, state, messages)
        state = out[step % 2][: len(own)]
        steps.update(received, own, sums, state, None if step else begun)
    return state, None


def _differentiate(done: _Done, grad: Tensor, begun: Tensor | None = None) -> tuple[Tensor, GateGradients]:
    """The gradients of a block's inputs, `[m, d]`, and of the parameters, given that of its rows after all steps.

    With `begun`, `[n, 3d]`, that of the states' share of the first step's gates is written there and goes no further.
    """
    steps, states, messages, sums, last = done
    grad_inputs, totals, grad = torch.empty_like(steps.inputs), steps.gates.totals(), grad.contiguous()
    for step in reversed(range(len(states))):
        passed = torch.empty_like(states[step]) if step else grad_inputs[: steps.num_rows]
        rows = steps.rows if step + 1 == len(states) else None
        own, received = (states[step], messages[step]) if rows is None else last
        to_own = passed if rows is None else torch.empty_like(grad)
        arrays = (sums[step, : len(own)], received, own, grad, to_own)
        to_begun = begun.split(steps.chunk) if begun is not None and step == 0 else [None] * len(own)
        chunks = zip(*(each.split(steps.chunk) for each in arrays))
        for (gates, messages_of, states_of, incoming, outgoing), first in zip(chunks, to_begun):
            steps.gates.backpropagate(gates, messages_of, states_of, incoming, outgoing, totals, first)
        if rows is not None:
            put_rows(passed.zero_(), rows, to_own)
            put_rows(messages[step].zero_(), rows, received)
        steps.add_transposed(messages[step], passed)  # their gradient has taken their place
        grad = passed
    steps.send_back(messages, grad_inputs[steps.num_rows :])
    return grad_inputs, totals


class _Done(NamedTuple):
    """Steps that were taken: the states before each, its messages, `[T, n, d]`, and sums of gates, `[T, n, 4d]`.

    The last one's states and messages are also there for the rows that it was taken for, `[w, d]`.
    """

    steps: _Steps
    states: list[Tensor]
    messages: Tensor
    sums: Tensor
    last: tuple[Tensor, Tensor]


class _Steps:
    """The arithmetic of the steps of one block; rows beyond the first R of the inputs are held.

    With `rows`, `[w]`, the last step is taken for those alone.
    """

    def __init__(
        self,
        operator: Operator,
        diagonal: Tensor | None,
        inputs: Tensor,
        parameters: tuple[Tensor, ...] | list[Tensor],
        rows: Tensor | None = None,
    ) -> None:
        self.inputs, self.num_rows, self.rows = inputs, operator.shape[0], rows
        self.gates = Gates(GateWeights.of(*parameters), inputs.dtype, 0)
        self.chunk, self.bias = chunk_rows(self.gates.weights), self.gates.weights.bias.numpy()
        self.diagonal = None if diagonal is None else diagonal.detach()[:, None].to(inputs.dtype)
        self.inside, self.outside = operator.by_column
        self.none = factors(None, inputs).numpy()
        self.row_scale = factors(operator.row_scale, inputs).numpy()
        self.entries = self._entries(self.inside)
        self.held = self._sum_held()

    def aggregate(self, state: Tensor, messages: Tensor) -> None:
        """Write the messages of each row to `messages`, `[n, d]`."""
        x, out = state.numpy(), messages.numpy()
        if self.held is None:
            weighted_sum(0, len(out), *self.entries, self.none, self.row_scale, x, out)
        else:
            add_weighted_sum(0, len(out), *self.entries, self.none, self.row_scale, x, self.held, out)
        if self.diagonal is not None:
            messages.addcmul_(self.diagonal, state)

    def choose(self, last: bool, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Of arrays by row, `[n, d]`, the rows that a step is taken for."""
        return tuple(gather_rows(each, self.rows) for each in arrays) if last and self.rows is not None else arrays

    def update(self, messages: Tensor, state: Tensor, sums: Tensor, out: Tensor, begun: Tensor | None = None) -> None:
        """Put the next state of every row into `out`, `[n, d]`; `sums` is a buffer for a chunk of gates, or for all.

        `begun`, `[n, 3d]`, is the states' share of the gates, where it is known.
        """
        whole = len(sums) >= len(state)
        pieces = zip(*(each.split(self.chunk) for each in (messages, state, out)))
        for number, (received, own, new) in enumerate(pieces):
            rows = slice(number * self.chunk, number * self.chunk + len(own))
            gates = sums[rows] if whole else sums[: len(own)]
            self.gates.sum(received, own, gates, begun=None if begun is None else begun[rows])
            update_rows(gates.numpy(), self.bias, own.numpy(), new.numpy())

    def compute(
        self, repeat: int, last: Tensor | None = None, *, buffered: bool = True, begun: Tensor | None = None
    ) -> _Done:
        """Take all steps; what the backward pass needs is in the thread's buffer, or in memory of its own.

        The state after the last step, of the rows that it is taken for, is written to `last`, if given; `begun` is the
        states' share of the first step's gates, `[n, 3d]`, where it is known.
        """
        shape = (repeat, self.num_rows, self.inputs.shape[1])
        size, like = math.prod(shape), self.inputs
        memory = (
            thread_buffer("steps", 6 * size, like) if buffered else empty_large(6, size, dtype=like.dtype).flatten()
        )
        parts = memory.split([size * each for each in (1, 1, 4)])
        messages, sums = parts[1].view(shape), parts[2].view(*shape[:2], 4 * shape[2])
        states = [self.inputs[: self.num_rows], *parts[0].view(shape)[1:]]
        for step, (state, following) in enumerate(zip(states, [*states[1:], last])):
            self.aggregate(state, messages[step])
            own, received = self.choose(step + 1 == repeat, state, messages[step])
            gates = sums[step, : len(own)]
            if following is not None:
                self.update(received, own, gates, following, None if step else begun)
            else:
                for pieces in zip(*(each.split(self.chunk) for each in (received, own, gates))):
                    self.gates.sum(*pieces)
        return _Done(self, states, messages, sums, (own, received))

    def add_transposed(self, grad: Tensor, out: Tensor) -> None:
        """Add what the messages' gradient, `[n, d]`, sends back to the rows themselves to `out`, `[n, d]`."""
        if self.diagonal is not None:
            out.addcmul_(self.diagonal, grad)
        self._send(self.inside, grad, out)

    def send_back(self, grads: Tensor, out: Tensor) -> None:
        """Write what the gradients of all steps' messages, `[T, n, d]`, send back to held senders to `out`."""
        out.zero_()
        if self.held is not None:
            self._send(self.outside, grads.sum(0), out)

    def _sum_held(self) -> np.ndarray | None:
        """What held senders bring to each row, factors of rows aside, `[n, d]`; None where there are none."""
        if not self.outside.num_entries:
            return None
        others = self.inputs[self.num_rows :].numpy()
        out = np.empty((self.num_rows, others.shape[1]), others.dtype)
        weighted_sum(0, len(out), *self._entries(self.outside), self.none, self.none, others, out)
        return out

    def _entries(self, operator: Operator) -> tuple[np.ndarray, ...]:
        col = operator.col.numpy()
        return operator.ptr.numpy(), col, col[:0], factors(operator.weight, self.inputs).numpy()

    def _send(self, operator: Operator, grad: Tensor, out: Tensor) -> None:
        entries = (operator.t_ptr, operator.t_row, operator.t_entry, factors(operator.weight, grad))
        arrays = [each.numpy() for each in entries]
        result = out.numpy()
        add_weighted_sum(0, len(result), *arrays, self.row_scale, self.none, grad.numpy(), result, result)
