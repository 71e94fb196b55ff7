"""The gated recurrent unit on the CPU, alone and as a whole step of a gated graph network: aggregate, then update.

At a million rows the gates of one step take gigabytes, and touching that fresh memory costs as much as the arithmetic.
Here the gates live in buffers that stay in cache, a chunk of rows at a time, and the backward pass makes them again
from the inputs: nothing of the size of the gates is ever stored. In the backward pass of a whole step the messages'
gradients take the messages' place, so that besides the states and their gradients one tensor of their size is all that
it needs. Aggregation and update are separate passes: if they alternated per chunk, each would evict the other's rows
from the cache, and both together would take half as long again.
"""

from __future__ import annotations

import math
import threading
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.csr import slices
from gpnn.kernels.autograd import first_order
from gpnn.kernels.cpu import add_weighted_sum, as_array, factors, launch, weighted_sum
from gpnn.kernels.cpu_gates import GateGradients, Gates, GateWeights, add_up, chunk_rows, update_rows
from gpnn.kernels.execution import float32_products, has_bf16_products, share_rows
from gpnn.kernels.gated import StepUse
from gpnn.kernels.operator import Operator
from gpnn.pages import empty_large


def gru_update(
    messages: Tensor, state: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
) -> Tensor:
    """What `torch.gru_cell` gives, `[n, d]`, without keeping the gates.

    Args:
        messages: the aggregated messages of each row, `[n, d]`.
        state: the state of each row, `[n, d]`, in the parameters' type or in bfloat16, as the messages.
        weight_ih: weights of the messages for the gates r, z, n, `[3d, d]`.
        weight_hh: weights of the states, `[3d, d]`.
        bias_ih: `[3d]`.
        bias_hh: `[3d]`.
    """
    return _GRU.apply(messages, state, weight_ih, weight_hh, bias_ih, bias_hh)


class _GRU(Function):
    @staticmethod
    def forward(ctx: Any, messages: Tensor, state: Tensor, *parameters: Tensor) -> Tensor:
        messages, state = messages.contiguous(), state.contiguous()
        ctx.save_for_backward(messages, state, *parameters)
        out = empty_large(*state.shape, dtype=state.dtype)
        update_all(GateWeights.of(*parameters), messages, state, out)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        messages, state, *parameters = ctx.saved_tensors
        grads, grad_state = messages.clone(), empty_large(*state.shape, dtype=state.dtype)
        totals = differentiate_all(GateWeights.of(*parameters), grads, state, None, grad, grad_state)
        return grads, grad_state, *totals.as_parameters()


def update_all(weights: GateWeights, messages: Tensor, state: Tensor, out: Tensor) -> None:
    """Put the next state of every row into `out`, `[n, d]`."""
    rows = _chunk_rows(weights, state)

    def do(start: int, stop: int) -> None:
        gates = Gates(weights, state.dtype, min(rows, stop - start))
        for chunk in slices(stop, rows, start):
            gates.update(messages[chunk], state[chunk], out[chunk])

    with _products(state):
        share_rows(len(state), work(state), do, multiple=rows)


def differentiate_all(
    weights: GateWeights, messages: Tensor, state: Tensor, out: Tensor | None, grad: Tensor, grad_state: Tensor
) -> GateGradients:
    """Replace `messages` by their gradient, fill `grad_state`; the gradients of the parameters.

    With the next states `out`, `[n, d]`, where they were kept, one product in six of the gates need not be made again.
    """
    rows, none = _chunk_rows(weights, state), state[:0]

    def do(start: int, stop: int) -> GateGradients:
        gates = Gates(weights, state.dtype, min(rows, stop - start))
        totals = gates.totals()
        for chunk in slices(stop, rows, start):
            known = none if out is None else out[chunk]
            parts = (messages[chunk], state[chunk], known, grad[chunk].contiguous())
            gates.differentiate(*parts, grad_state=grad_state[chunk], totals=totals)
        return totals

    with _products(state):
        return add_up(share_rows(len(state), work(state), do, multiple=rows))


def work(state: Tensor) -> int:
    """Multiplications that one update of these rows takes."""
    return 6 * state.numel() * state.shape[1]


def _chunk_rows(weights: GateWeights, state: Tensor) -> int:
    """Rows per chunk: products in bfloat16 turn their operands into it each time, which pays off over more rows."""
    return chunk_rows(weights) * (2 if _in_bf16(state) else 1)


def _products(state: Tensor) -> AbstractContextManager[None]:
    """Inside, products are taken in bfloat16, summed in float32, where the states are bfloat16 and the CPU has such."""
    return float32_products("medium" if _in_bf16(state) else None)


def _in_bf16(state: Tensor) -> bool:
    return state.dtype == torch.bfloat16 and has_bf16_products()


class GatedStep(Function):
    """:func:`gpnn.kernels.gated.gated_step` on a CPU."""

    @staticmethod
    def forward(
        ctx: Any, operator: Operator, diagonal: Tensor | None, use: StepUse, inputs: Tensor, *parameters: Tensor
    ) -> Tensor:
        inputs, adjacency = inputs.contiguous(), _Adjacency(operator, diagonal)
        own = inputs[: operator.shape[0]]
        messages = empty_large(*own.shape, dtype=inputs.dtype)
        adjacency.aggregate(inputs, messages)
        ctx.adjacency, ctx.spent = adjacency, False
        kept = (inputs, messages if use.gradients else None)
        if not use.values:
            ctx.save_for_backward(*kept, None, *parameters)
            return own.new_zeros(1, 1).expand_as(own)
        out = empty_large(*own.shape, dtype=inputs.dtype)
        update_all(GateWeights.of(*parameters), messages, own, out)
        exact = out.dtype == parameters[0].dtype
        ctx.save_for_backward(*kept, out if use.kept and exact else None, *parameters)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, messages, out, *parameters = ctx.saved_tensors
        adjacency: _Adjacency = ctx.adjacency
        messages = messages.data  # their gradient takes their place, which autograd need not know
        if ctx.spent:
            adjacency.aggregate(inputs, messages)
        ctx.spent = True
        grad_inputs = empty_large(*inputs.shape, dtype=inputs.dtype)
        own, num_rows = inputs[: len(grad)], len(grad)
        weights = GateWeights.of(*parameters)
        totals = differentiate_all(weights, messages, own, out, grad, grad_inputs[:num_rows])
        grad_inputs[num_rows:] = 0
        adjacency.add_transposed(messages, grad_inputs)
        return None, None, None, grad_inputs, *totals.as_parameters()


class _Adjacency:
    """Weighted sums over an operator and a diagonal, by ranges of rows, and their transpose."""

    def __init__(self, operator: Operator, diagonal: Tensor | None) -> None:
        self.operator = operator
        self.diagonal = None if diagonal is None else diagonal.detach()[:, None]

    def aggregate(self, inputs: Tensor, messages: Tensor) -> None:
        """Write the aggregated messages of each row to `messages`, `[n, d]`."""
        operator, none = self.operator, factors(None, inputs)
        weight, row_scale = factors(operator.weight, inputs), factors(operator.row_scale, inputs)
        entries = (operator.ptr, operator.col, operator.col[:0], weight, none, row_scale, inputs, messages)
        arrays = [as_array(each) for each in entries]

        def aggregate_rows(start: int, stop: int) -> None:
            weighted_sum(start, stop, *arrays)
            if self.diagonal is not None:
                chunk = slice(start, stop)
                messages[chunk].addcmul_(self.diagonal[chunk].to(messages.dtype), inputs[chunk])

        share_rows(len(messages), operator.num_entries * inputs.shape[1], aggregate_rows)

    def add_transposed(self, grad: Tensor, out: Tensor) -> None:
        """Add the transpose's product with the messages' gradient to `out`, `[m, d]`."""
        operator, amount = self.operator, self.operator.num_entries * grad.shape[1]
        if self.diagonal is not None:
            out[: len(grad)].addcmul_(self.diagonal.to(out.dtype), grad)
        values = (factors(operator.weight, grad), factors(operator.row_scale, grad))
        entries = (operator.t_ptr, operator.t_row, operator.t_entry, *values)
        launch(add_weighted_sum, operator.shape[1], amount, *entries, factors(None, grad), grad, out, out)


MOST_BYTES = 1 << 25  # of what the backward pass of a block holds; a larger block goes step by step


def fits(inputs: Tensor, num_rows: int, repeat: int) -> bool:
    """Whether the backward pass of so many steps over a block is small enough to be done in one go."""
    per_row = 6 * inputs.shape[1] * inputs.element_size()  # a state, a message and four gates
    return repeat * num_rows * per_row <= MOST_BYTES


class GatedSteps(Function):
    """`repeat` times :func:`gpnn.kernels.gated.gated_step` of the first rows; the others are held as they are.

    A block that fits a core's cache takes all its steps there. The backward pass makes them again from the block's
    inputs and keeps their gates until it has gone back through them, so that no product is made a third time: nothing
    but the inputs is kept between the passes, unless the one follows the other at once. What held senders bring is
    summed once, and its gradient is sent back once.
    """

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
        ctx.operator, ctx.diagonal, ctx.repeat, ctx.done = operator, diagonal, repeat, None
        ctx.save_for_backward(inputs, *parameters)
        state = inputs[: operator.shape[0]]
        if not use.values:
            return state.new_zeros(1, 1).expand_as(state)
        steps = _Steps(operator, diagonal, inputs, parameters)
        if use.gradients and use.at_once:
            last = torch.empty_like(state)
            ctx.done = (steps, steps.compute(repeat, last))
            return last
        messages, out = torch.empty_like(state), [torch.empty_like(state) for _ in range(min(repeat, 2))]
        sums = state.new_empty(min(len(state), steps.chunk), 4 * state.shape[1])
        for step in range(repeat):
            steps.aggregate(state, messages)
            steps.update(messages, state, sums, out[step % 2])
            state = out[step % 2]
        return state

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, *parameters = ctx.saved_tensors
        if ctx.done is None:
            steps = _Steps(ctx.operator, ctx.diagonal, inputs, parameters)
            ctx.done = (steps, steps.compute(ctx.repeat))
        (steps, (states, messages, sums)), num_rows, ctx.done = ctx.done, len(grad), None  # they are overwritten
        grad_inputs, totals, grad = torch.empty_like(inputs), steps.gates.totals(), grad.contiguous()
        for step in reversed(range(ctx.repeat)):
            passed = torch.empty_like(grad) if step else grad_inputs[:num_rows]
            arrays = (sums[step], messages[step], states[step], grad, passed)
            for gates, received, own, incoming, outgoing in zip(*(each.split(steps.chunk) for each in arrays)):
                steps.gates.backpropagate(gates, received, own, incoming, outgoing, totals)
            steps.add_transposed(messages[step], passed)  # their gradient has taken their place
            grad = passed
        steps.send_back(messages, grad_inputs[num_rows:])
        return None, None, None, None, grad_inputs, *totals.as_parameters()


_buffers = threading.local()  # of each thread, so that memory that is in its cache serves the next block too


def _buffer(size: int, like: Tensor) -> Tensor:
    """So many numbers of memory that the thread's next block uses again."""
    kept: dict[Any, Tensor] = _buffers.__dict__
    if like.dtype not in kept or kept[like.dtype].numel() < size:
        kept[like.dtype] = like.new_empty(size)
    return kept[like.dtype][:size]


class _Steps:
    """The arithmetic of the steps of one block; rows beyond the first R of the inputs are held."""

    def __init__(
        self, operator: Operator, diagonal: Tensor | None, inputs: Tensor, parameters: tuple[Tensor, ...] | list[Tensor]
    ) -> None:
        self.inputs, self.num_rows = inputs, operator.shape[0]
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

    def update(self, messages: Tensor, state: Tensor, sums: Tensor, out: Tensor) -> None:
        """Put the next state of every row into `out`, `[n, d]`; `sums` is a buffer for a chunk of gates, or for all."""
        whole = len(sums) == len(state)
        pieces = zip(*(each.split(self.chunk) for each in (messages, state, out)))
        for number, (received, own, new) in enumerate(pieces):
            first = number * self.chunk if whole else 0
            gates = sums[first : first + len(own)]
            self.gates.sum(received, own, gates)
            update_rows(gates.numpy(), self.bias, own.numpy(), new.numpy())

    def compute(self, repeat: int, last: Tensor | None = None) -> tuple[list[Tensor], Tensor, Tensor]:
        """The states before each step, its messages `[T, n, d]`, and the sums of its gates `[T, n, 4d]`.

        They are in the thread's buffer. The state after the last step is written to `last`, `[n, d]`, if given.
        """
        shape = (repeat, self.num_rows, self.inputs.shape[1])
        parts = _buffer(6 * math.prod(shape), self.inputs).split([math.prod(shape) * each for each in (1, 1, 4)])
        messages, sums = parts[1].view(shape), parts[2].view(*shape[:2], 4 * shape[2])
        states = [self.inputs[: self.num_rows], *parts[0].view(shape)[1:]]
        for step, (state, following) in enumerate(zip(states, [*states[1:], last])):
            self.aggregate(state, messages[step])
            if following is not None:
                self.update(messages[step], state, sums[step], following)
            else:
                for parts in zip(*(each.split(self.chunk) for each in (messages[step], state, sums[step]))):
                    self.gates.sum(*parts)
        return states, messages, sums

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
