"""Sums over senders on the CPU, of messages and of their gradients."""

from __future__ import annotations

from torch import Tensor

from gpnn.kernels.cpu import add_weighted_sum, as_array, factors, launch, weighted_sum
from gpnn.kernels.execution import share_rows
from gpnn.kernels.operator import Operator
from gpnn.pages import empty_large


class Adjacency:
    """:class:`gpnn.kernels.whole_step.Adjacency`, by ranges of rows."""

    scale = None

    def __init__(self, operator: Operator, diagonal: Tensor | None) -> None:
        self.operator, self.num_rows = operator, operator.shape[0]
        self.diagonal = None if diagonal is None else diagonal.detach()[:, None]

    def aggregate(self, sent: Tensor) -> Tensor:
        operator, none = self.operator, factors(None, sent)
        messages = empty_large(self.num_rows, sent.shape[1], dtype=sent.dtype)
        weight, row_scale = factors(operator.weight, sent), factors(operator.row_scale, sent)
        entries = (operator.ptr, operator.col, operator.col[:0], weight, none, row_scale, sent, messages)
        arrays = [as_array(each) for each in entries]

        def aggregate_rows(start: int, stop: int) -> None:
            weighted_sum(start, stop, *arrays)
            if self.diagonal is not None:
                chunk = slice(start, stop)
                messages[chunk].addcmul_(self.diagonal[chunk].to(messages.dtype), sent[chunk])

        share_rows(len(messages), operator.num_entries * sent.shape[1], aggregate_rows)
        return messages

    def add_transposed(self, grad: Tensor, out: Tensor) -> None:
        out[self.num_rows :] = 0
        operator, amount = self.operator, self.operator.num_entries * grad.shape[1]
        if self.diagonal is not None:
            out[: len(grad)].addcmul_(self.diagonal.to(out.dtype), grad)
        values = (factors(operator.weight, grad), factors(operator.row_scale, grad))
        entries = (operator.t_ptr, operator.t_row, operator.t_entry, *values)
        launch(add_weighted_sum, operator.shape[1], amount, *entries, factors(None, grad), grad, out, out)
