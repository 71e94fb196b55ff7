"""A whole step on the CPU, aggregate and then update, as one function of the states, by any rule.

In its backward pass the messages' gradients take the messages' place, so that besides the states and their gradients
one tensor of their size is all that it needs. Aggregation and update are separate passes: if they alternated per chunk,
each would evict the other's rows from the cache, and both together would take half as long again.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.autograd import first_order
from gpnn.kernels.cpu import add_weighted_sum, as_array, factors, launch, weighted_sum
from gpnn.kernels.execution import share_rows
from gpnn.kernels.gated import StepUse
from gpnn.kernels.operator import Operator
from gpnn.kernels.update_rule import Hints, UpdateRule
from gpnn.pages import empty_large


class WholeStep(Function):
    """The rows that a step updates, `[n, d]`, by a rule, an operator, `[n, m]`, and the states of senders, `[m, d]`."""

    @staticmethod
    def forward(
        ctx: Any,
        rule: UpdateRule,
        operator: Operator,
        diagonal: Tensor | None,
        use: StepUse,
        inputs: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        inputs, adjacency = inputs.contiguous(), _Adjacency(operator, diagonal)
        own = inputs[: operator.shape[0]]
        messages = empty_large(*own.shape, dtype=inputs.dtype)
        adjacency.aggregate(rule.visible(inputs), messages)
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
        messages = messages.data  # their gradient takes their place, which autograd need not know
        if ctx.spent:
            adjacency.aggregate(rule.visible(inputs), messages)
        ctx.spent = True
        total = empty_large(*inputs.shape, dtype=inputs.dtype)
        arrays = (messages, inputs[:num_rows], grad, tuple(parameters), total[:num_rows])
        grad_messages, grads = rule.differentiate(*arrays, Hints(out))
        total[num_rows:] = 0
        adjacency.add_transposed(grad_messages, total)
        rule.finish(inputs, grad, total)
        return None, None, None, None, total, *grads


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
