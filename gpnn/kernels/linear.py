"""All steps of a block of a linear cell in one go, on the CPU; what held senders bring is summed once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.aggregate import sum_on_cpu
from gpnn.kernels.autograd import first_order
from gpnn.kernels.gated import wants_values
from gpnn.kernels.operator import Operator

MOST_BYTES = 1 << 27  # of a block's inputs; a larger one goes step by step, and its operator need not be split


def linear_steps(operator: Operator, diagonal: Tensor | None, inputs: Tensor, repeat: int) -> Tensor | None:
    """`repeat` times h ← A h + diag · h over the first n of the rows `h`, while the others stay as they are, `[n, d]`.

    None where no kernel takes all steps in one go: on a GPU, in half precision and where a block is too large.

    Args:
        operator: A, the weighted adjacency, receivers by senders, `[n, m]`.
        diagonal: weight of each updating row's message to itself, `[n]`, or None.
        inputs: the states h, the updating rows first, `[m, d]`.
        repeat: how many steps.
    """
    if inputs.is_cuda or inputs.dtype.itemsize < 4 or inputs.numel() * inputs.element_size() > MOST_BYTES:
        return None
    own = None if diagonal is None else diagonal[:, None].to(inputs.dtype)
    found: Tensor = _LinearSteps.apply(operator, own, repeat, inputs)
    return found


class _LinearSteps(Function):
    """The gradient of a linear map needs no states: the backward pass takes transposed steps alone."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, diagonal: Tensor | None, repeat: int, inputs: Tensor) -> Tensor:
        ctx.operator, ctx.diagonal, ctx.repeat = operator, diagonal, repeat
        state, others = inputs.detach().split([operator.shape[0], len(inputs) - operator.shape[0]])
        if not wants_values():
            return state.new_zeros(1, 1).expand_as(state)
        inside, outside = operator.by_column
        held = _send(outside, others) if outside.num_entries else None  # [n, d], factors of rows aside
        for _ in range(repeat):
            new = _send(inside, state, row_scale=operator.row_scale, base=held)
            state = new if diagonal is None else new.addcmul_(diagonal, state)
        return state

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (inside, outside), row_scale = ctx.operator.by_column, ctx.operator.row_scale
        grad, total = grad.contiguous(), torch.zeros_like(grad)  # of the messages of all steps, `[n, d]`
        for _ in range(ctx.repeat):
            total += grad
            back = _send_back(inside, grad, row_scale)
            grad = back if ctx.diagonal is None else back.addcmul_(ctx.diagonal, grad)
        return None, None, None, torch.cat([grad, _send_back(outside, total, row_scale)])


def _send(operator: Operator, x: Tensor, *, row_scale: Tensor | None = None, base: Tensor | None = None) -> Tensor:
    entries = (operator.ptr, operator.col, operator.col[:0], operator.weight)
    return sum_on_cpu(*entries, x, scale=operator.col_scale, row_scale=row_scale, base=base)


def _send_back(operator: Operator, grad: Tensor, row_scale: Tensor | None) -> Tensor:
    entries = (operator.t_ptr, operator.t_row, operator.t_entry, operator.weight)
    return sum_on_cpu(*entries, grad, scale=row_scale, row_scale=operator.col_scale)
