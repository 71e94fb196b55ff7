"""The gated recurrent unit on the CPU, alone and as a whole step of a gated graph network: aggregate, then update.

At a million rows the gates of one step take gigabytes, and touching that fresh memory costs as much as the arithmetic.
Here the gates live in buffers that stay in cache, a chunk of rows at a time, and the backward pass makes them again
from the inputs: nothing of the size of the gates is ever stored. In the backward pass of a whole step the messages'
gradients take the messages' place, so that besides the states and their gradients one tensor of their size is all that
it needs. Aggregation and update are separate passes: if they alternated per chunk, each would evict the other's rows
from the cache, and both together would take half as long again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.csr import slices
from gpnn.kernels.autograd import first_order
from gpnn.kernels.cpu import add_weighted_sum, as_array, factors, launch, weighted_sum
from gpnn.kernels.cpu_gates import GateGradients, Gates, GateWeights, add_up, chunk_rows
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
