"""A whole step, aggregate and then update, as one function of the states, by any rule, on any device.

Besides the states and their gradients it holds one tensor of the messages' size: in the backward pass their gradient
may take their place, and the transposed sum adds to the gradient of what rows send where that stands. Aggregation and
update are separate passes: if they alternated per chunk of rows, each would evict the other's rows from a CPU's cache,
and both together would take half as long again.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.autograd import first_order
from gpnn.kernels.gated import StepUse
from gpnn.kernels.operator import Operator
from gpnn.kernels.update_rule import Hints, Parameters, UpdateRule
from gpnn.pages import empty_like


class Adjacency(Protocol):
    """The weighted sums of an operator, `[n, m]`, and of a diagonal, `[n]`, on one kind of device."""

    num_rows: int
    scale: Tensor | None  # a factor of each row's gradient of messages, `[n]`, which the rule is to multiply by

    def aggregate(self, sent: Tensor) -> Tensor:
        """The messages of the first n of the rows that send these, `[m, d]`: `[n, d]`."""

    def add_transposed(self, grad: Tensor, out: Tensor) -> None:
        """Add what the messages' gradient, `[n, d]`, sends back to `out`, `[m, d]`, whose first n rows are filled."""


def whole_step(
    rule: UpdateRule,
    operator: Operator,
    diagonal: Tensor | None,
    use: StepUse,
    inputs: Tensor,
    parameters: Parameters,
) -> Tensor:
    """The rows that a step updates, `[n, d]`, by a rule, an operator, `[n, m]`, and the states of senders, `[m, d]`."""
    if inputs.is_cuda:
        from gpnn.kernels.gpu_adjacency import Adjacency as OnDevice
    else:
        from gpnn.kernels.cpu_adjacency import Adjacency as OnDevice  # type: ignore[assignment]
    return WholeStep.apply(rule, OnDevice(operator, diagonal), use, inputs, *parameters)


class WholeStep(Function):
    """:func:`whole_step` with a device's adjacency."""

    @staticmethod
    def forward(
        ctx: Any, rule: UpdateRule, adjacency: Adjacency, use: StepUse, inputs: Tensor, *parameters: Tensor
    ) -> Tensor:
        inputs = inputs.contiguous()
        messages, own = adjacency.aggregate(rule.visible(inputs)), inputs[: adjacency.num_rows]
        out = rule.update(messages, own, parameters) if use.values else own.new_zeros(1, 1).expand_as(own)
        ctx.rule, ctx.adjacency, ctx.spent = rule, adjacency, False
        kept = (inputs, messages if use.gradients else None, out if use.kept and use.values else None)
        ctx.save_for_backward(*kept, *parameters)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, messages, out, *parameters = ctx.saved_tensors
        rule, adjacency, num_rows = ctx.rule, ctx.adjacency, len(grad)
        if ctx.spent:
            messages = adjacency.aggregate(rule.visible(inputs))
        ctx.spent = True  # their gradient may take their place, which autograd need not know
        grad, total = grad.contiguous(), empty_like(inputs)
        arrays = (messages.data, inputs[:num_rows], grad, tuple(parameters), total[:num_rows])
        grad_messages, grads = rule.differentiate(*arrays, Hints(out, adjacency.scale))
        adjacency.add_transposed(grad_messages, total)
        rule.finish(inputs, grad, total)
        return None, None, None, total, *grads
