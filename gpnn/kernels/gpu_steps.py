"""All steps of a block in one go, on a GPU, as one function of the states, by any rule."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.autograd import first_order
from gpnn.kernels.gated import StepUse
from gpnn.kernels.gpu import weighted_sum
from gpnn.kernels.gpu_adjacency import scale_of_gradient
from gpnn.kernels.operator import Operator
from gpnn.kernels.update_rule import Hints, UpdateRule


class WholeSteps(Function):
    """`repeat` times :func:`gpnn.kernels.whole_step.whole_step` of the first rows; the others are held as they are.

    What held senders bring is summed once, and its gradient is sent back once. In between a step reads and writes the
    block's own rows alone: where they fit the L2 cache, they stay there.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rule: UpdateRule,
        operator: Operator,
        diagonal: Tensor | None,
        use: StepUse,
        repeat: int,
        inputs: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        state, others = inputs.detach().contiguous().tensor_split([operator.shape[0]])
        steps = _Steps(operator, diagonal, rule.visible(others))
        states, received = [state], []
        for step in range(repeat):
            messages = steps.aggregate(rule.visible(state))
            if use.gradients:
                received.append(messages)
            if step + 1 < repeat or use.values:
                state = rule.update(messages, state, parameters)
                states.append(state)
        ctx.rule, ctx.steps, ctx.states, ctx.received = rule, steps, states[:repeat], received
        ctx.others = others
        ctx.save_for_backward(*parameters)
        return state if use.values else state.new_zeros(1, 1).expand_as(state)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.received is None:
            raise RuntimeError("Steps taken in one go can be differentiated once. Got a second backward pass.")
        rule, steps, states, received, others = ctx.rule, ctx.steps, ctx.states, ctx.received, ctx.others
        ctx.states = ctx.received = ctx.others = None  # gradients of messages take the messages' place
        grad = grad.contiguous()
        total, held = grad.new_empty(len(grad) + len(others), grad.shape[1]), None
        sums: list[Tensor] = []
        while received:
            state, messages = states.pop(), received.pop()
            passed = torch.empty_like(grad) if received else total[: len(grad)]
            arrays = (messages, state, grad, ctx.saved_tensors, passed)
            back, grads = rule.differentiate(*arrays, Hints(scale=steps.early))
            sums = grads if not sums else [a.add_(b) for a, b in zip(sums, grads)]
            steps.send_inside(back, passed)
            rule.finish(state, grad, passed)
            held, grad = back if held is None else held.add_(back), passed
        assert held is not None
        steps.send_held(held, total[len(grad) :])
        rule.finish(others, None, total[len(grad) :])
        return None, None, None, None, None, total, *sums


class _Steps:
    """A block's messages: from its own rows, `[n, n]`, and from held senders, `[n, m − n]`, summed once."""

    def __init__(self, operator: Operator, diagonal: Tensor | None, others: Tensor) -> None:
        self.scale, self.diagonal = operator.row_scale, diagonal
        self.early, self.late = scale_of_gradient(operator, diagonal)
        self.inside, self.cut = operator.by_column
        self.held: Tensor | None = None
        if self.cut.num_entries:
            parts = (self.cut.ptr, self.cut.col, None, self.cut.weight)
            self.held = weighted_sum(*parts, others, source_scale=self.cut.col_scale, row_scale=self.scale)

    def aggregate(self, state: Tensor) -> Tensor:
        """The messages to rows that send these, `[n, d]`."""
        parts = (self.inside.ptr, self.inside.col, None, self.inside.weight)
        scales = (self.inside.col_scale, self.scale)
        diagonal, held = self.diagonal, self.held
        return weighted_sum(*parts, state, source_scale=scales[0], row_scale=scales[1], diagonal=diagonal, add=held)

    def send_inside(self, grad: Tensor, total: Tensor) -> None:
        """Add to the gradient of the block's rows what comes through messages with the gradient `grad`, `[n, d]`.

        It has its :attr:`early` factors already.
        """
        back, scales = self.inside, (self.late, self.inside.col_scale)
        parts = (back.t_ptr, back.t_row, back.t_entry, back.weight, grad)
        diagonal = self.diagonal
        weighted_sum(*parts, source_scale=scales[0], row_scale=scales[1], diagonal=diagonal, add=total, out=total)

    def send_held(self, grad: Tensor, out: Tensor) -> None:
        """The gradient of the held senders, `[m − n, d]`, given that of all steps' messages, scaled likewise."""
        back = self.cut
        parts = (back.t_ptr, back.t_row, back.t_entry, back.weight)
        weighted_sum(*parts, grad, source_scale=self.late, row_scale=back.col_scale, out=out)
