"""A whole step of a gated graph network on a GPU: aggregation and update as one function of the states.

Besides the states and their gradients it holds one tensor of the messages' size: in the backward pass their gradient
takes their place, and the transposed sum adds to the gradient of the states where that stands.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.first_order import first_order
from gpnn.kernels.gated import StepUse
from gpnn.kernels.gpu import weighted_sum
from gpnn.kernels.gpu_gru import differentiate_all, update_all
from gpnn.kernels.operator import Operator


class GatedStep(Function):
    """:func:`gpnn.kernels.gated.gated_step` on a GPU."""

    @staticmethod
    def forward(
        ctx: Any, operator: Operator, diagonal: Tensor | None, use: StepUse, inputs: Tensor, *parameters: Tensor
    ) -> Tensor:
        inputs = inputs.contiguous()
        messages, own = _aggregate(operator, diagonal, inputs), inputs[: operator.shape[0]]
        out = update_all(messages, own, parameters) if use.values else own.new_zeros(1, 1).expand_as(own)
        ctx.operator, ctx.diagonal, ctx.spent = operator, diagonal, False
        ctx.save_for_backward(inputs, messages if use.gradients else None, *parameters)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, messages, *parameters = ctx.saved_tensors
        operator, diagonal = ctx.operator, ctx.diagonal
        messages = (
            _aggregate(operator, diagonal, inputs) if ctx.spent else messages.data
        )  # their gradient takes their place
        ctx.spent = True
        total, num_rows = torch.empty_like(inputs), operator.shape[0]
        own = (messages, inputs[:num_rows], grad.contiguous(), tuple(parameters), (messages, total[:num_rows]))
        grads = differentiate_all(*own)
        if diagonal is not None:
            total[:num_rows].addcmul_(diagonal[:, None].to(total.dtype), messages)
        transposed = (operator.t_ptr, operator.t_row, operator.t_entry, operator.weight)
        weighted_sum(*transposed, messages, source_scale=operator.row_scale, add=total[:num_rows], out=total)
        return None, None, None, total, *grads


def _aggregate(operator: Operator, diagonal: Tensor | None, inputs: Tensor) -> Tensor:
    """The aggregated messages of the first n rows, `[n, d]`."""
    parts = (operator.ptr, operator.col, None, operator.weight)
    messages = weighted_sum(*parts, inputs, row_scale=operator.row_scale)
    if diagonal is not None:
        messages.addcmul_(diagonal[:, None].to(messages.dtype), inputs[: operator.shape[0]])
    return messages
