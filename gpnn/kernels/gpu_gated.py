"""A whole step of a gated graph network on a GPU: hear and update as one function of the states.

Besides the states and their gradients it holds one tensor of the messages' size: in the backward pass their gradient
takes their place, and the transposed sum adds to the gradient of the states where that stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from gpnn.kernels.gpu import weighted_sum
from gpnn.kernels.gpu_gru import differentiate_all, update_all
from gpnn.kernels.operator import Operator

_for_gradients: ContextVar[bool] = ContextVar("for_gradients", default=False)


@contextmanager
def for_gradients() -> Iterator[None]:
    """Steps inside are made for their backward pass alone: they have the right shape, and values that mean nothing."""
    token = _for_gradients.set(True)
    try:
        yield
    finally:
        _for_gradients.reset(token)


def gated_step(operator: Operator, diagonal: Tensor | None, inputs: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
    """gru_cell(A h + diag · h, h) over the first n of the rows `h`, `[n, d]`; A is `[n, m]`.

    Args:
        operator: A, who hears whom.
        diagonal: weight with which each updating row hears itself, `[n]`, or None.
        inputs: the states h, the updating rows first, `[m, d]`, in the parameters' type or in bfloat16.
        parameters: weight_ih, weight_hh, bias_ih and bias_hh of :func:`torch.gru_cell`.
    """
    keep = torch.is_grad_enabled() and any(each.requires_grad for each in (inputs, *parameters))
    return _GatedStep.apply(operator, diagonal, keep, inputs, *parameters)


class _GatedStep(Function):
    @staticmethod
    def forward(
        ctx: Any, operator: Operator, diagonal: Tensor | None, keep: bool, inputs: Tensor, *parameters: Tensor
    ) -> Tensor:
        inputs = inputs.contiguous()
        messages, own = _hear(operator, diagonal, inputs), inputs[: operator.shape[0]]
        out = own.new_zeros(1, 1).expand_as(own) if _for_gradients.get() else update_all(messages, own, parameters)
        ctx.operator, ctx.diagonal, ctx.messages = operator, diagonal, messages if keep else None
        ctx.save_for_backward(inputs, *parameters)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, *parameters = ctx.saved_tensors
        operator, diagonal = ctx.operator, ctx.diagonal
        messages, ctx.messages = ctx.messages, None  # their gradient takes their place
        if messages is None:  # a second backward pass
            messages = _hear(operator, diagonal, inputs)
        total, num_rows = torch.empty_like(inputs), operator.shape[0]
        own = (messages, inputs[:num_rows], grad.contiguous(), tuple(parameters), (messages, total[:num_rows]))
        grads = differentiate_all(*own)
        if diagonal is not None:
            total[:num_rows].addcmul_(diagonal[:, None].to(total.dtype), messages)
        transposed = (operator.t_ptr, operator.t_row, operator.t_entry, operator.weight)
        weighted_sum(*transposed, messages, source_scale=operator.row_scale, add=total[:num_rows], out=total)
        return None, None, None, total, *grads


def _hear(operator: Operator, diagonal: Tensor | None, inputs: Tensor) -> Tensor:
    """The messages of the first n rows, `[n, d]`."""
    parts = (operator.ptr, operator.col, None, operator.weight)
    messages = weighted_sum(*parts, inputs, row_scale=operator.row_scale)
    if diagonal is not None:
        messages.addcmul_(diagonal[:, None].to(messages.dtype), inputs[: operator.shape[0]])
    return messages
