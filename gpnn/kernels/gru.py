"""The gated recurrent unit over many rows: a chunk of rows at a time, gates recomputed in the backward pass.

At a million rows the gates of one step take gigabytes, and touching that fresh memory costs as much as the
arithmetic. Here the gates live in buffers that stay in cache, and the backward pass makes them again from the inputs:
nothing of the size of the gates is ever stored.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.first_order import first_order
from gpnn.kernels.gates import GateGradients, Gates, GateWeights, add_up, chunk_rows, chunks
from gpnn.kernels.pages import empty_large
from gpnn.kernels.precision import float32_products, has_bf16_products
from gpnn.kernels.threads import share_rows


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
        for chunk in chunks(start, stop, rows):
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
        for chunk in chunks(start, stop, rows):
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
    """Rows a chunk: products in bfloat16 turn their operands into it each time, which pays off over more rows."""
    return chunk_rows(weights) * (2 if _in_bf16(state) else 1)


def _products(state: Tensor) -> AbstractContextManager[None]:
    """Inside, products are taken in bfloat16, summed in float32, where the states are bfloat16 and the CPU has such."""
    return float32_products("medium" if _in_bf16(state) else None)


def _in_bf16(state: Tensor) -> bool:
    return state.dtype == torch.bfloat16 and has_bf16_products()
