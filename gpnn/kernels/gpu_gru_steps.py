"""Several steps of a gated graph network over one block of rows on a GPU, senders outside the block held.

What held senders bring is summed once, and its gradient is sent back once. In between a step reads and writes the
block's own rows alone: where they fit the L2 cache, they stay there.
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


class GatedSteps(Function):
    """`repeat` times :func:`gpnn.kernels.gated.gated_step` of the first rows; the others stay as they are."""

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
        steps, state = _Steps(operator, diagonal, inputs), inputs[: operator.shape[0]]
        states, received = [state], []
        for step in range(repeat):
            messages = steps.aggregate(state)
            if use.gradients:
                received.append(messages)
            if step + 1 < repeat or use.values:
                state = update_all(messages, state, parameters)
                states.append(state)
        ctx.steps, ctx.states, ctx.received, ctx.num_inputs = steps, states[:repeat], received, len(inputs)
        ctx.save_for_backward(*parameters)
        return state if use.values else state.new_zeros(1, 1).expand_as(state)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.received is None:
            raise RuntimeError("Steps taken in one go can be differentiated once. Got a second backward pass.")
        steps, states, received = ctx.steps, ctx.states, ctx.received
        ctx.states = ctx.received = None  # gradients of messages take the messages' place
        grad, total, held = grad.contiguous(), grad.new_empty(ctx.num_inputs, grad.shape[1]), None
        sums: list[Tensor] = []
        while received:
            state, messages = states.pop(), received.pop()
            passed = torch.empty_like(grad) if received else total[: len(grad)]
            grads = differentiate_all(messages, state, grad, ctx.saved_tensors, (messages, passed))
            sums = grads if not sums else [a.add_(b) for a, b in zip(sums, grads)]
            steps.send_inside(messages, passed)
            held, grad = messages if held is None else held.add_(messages), passed
        assert held is not None
        steps.send_held(held, total[len(grad) :])
        return None, None, None, None, total, *sums


class _Steps:
    """A block's messages: from its own rows, `[n, n]`, and from held senders, `[n, m − n]`, summed once."""

    def __init__(self, operator: Operator, diagonal: Tensor | None, inputs: Tensor) -> None:
        self.scale, self.diagonal = operator.row_scale, diagonal
        self.inside, self.cut = operator.by_column
        self.held: Tensor | None = None
        if self.cut.num_entries:
            parts = (self.cut.ptr, self.cut.col, None, self.cut.weight)
            self.held = weighted_sum(*parts, inputs[operator.shape[0] :], row_scale=self.scale)

    def aggregate(self, state: Tensor) -> Tensor:
        """The messages to rows in these states, `[n, d]`."""
        parts = (self.inside.ptr, self.inside.col, None, self.inside.weight)
        messages = weighted_sum(*parts, state, row_scale=self.scale, add=self.held)
        return messages if self.diagonal is None else messages.addcmul_(self.diagonal[:, None].to(state.dtype), state)

    def send_inside(self, grad: Tensor, total: Tensor) -> None:
        """Add to the gradient of the block's rows what comes through messages with the gradient `grad`, `[n, d]`."""
        if self.diagonal is not None:
            total.addcmul_(self.diagonal[:, None].to(total.dtype), grad)
        back = self.inside
        parts = (back.t_ptr, back.t_row, back.t_entry, back.weight)
        weighted_sum(*parts, grad, source_scale=self.scale, add=total, out=total)

    def send_held(self, grad: Tensor, out: Tensor) -> None:
        """The gradient of the held senders, `[m − n, d]`, given that of all steps' messages."""
        back = self.cut
        weighted_sum(back.t_ptr, back.t_row, back.t_entry, back.weight, grad, source_scale=self.scale, out=out)
