"""Sums over senders on a GPU, of messages and of their gradients."""

from __future__ import annotations

from torch import Tensor

from gpnn.kernels.gpu import weighted_sum
from gpnn.kernels.operator import Operator


class Adjacency:
    """:class:`gpnn.kernels.whole_step.Adjacency`."""

    def __init__(self, operator: Operator, diagonal: Tensor | None) -> None:
        self.operator, self.diagonal, self.num_rows = operator, diagonal, operator.shape[0]
        self.scale, self.late = scale_of_gradient(operator, diagonal)

    def aggregate(self, sent: Tensor) -> Tensor:
        operator = self.operator
        parts, scales = (operator.ptr, operator.col, None, operator.weight), (operator.col_scale, operator.row_scale)
        return weighted_sum(*parts, sent, source_scale=scales[0], row_scale=scales[1], diagonal=self.diagonal)

    def add_transposed(self, grad: Tensor, out: Tensor) -> None:
        operator = self.operator
        parts = (operator.t_ptr, operator.t_row, operator.t_entry, operator.weight, grad)
        scales, own = (self.late, operator.col_scale), out[: self.num_rows]
        weighted_sum(*parts, source_scale=scales[0], row_scale=scales[1], diagonal=self.diagonal, add=own, out=out)


def scale_of_gradient(operator: Operator, diagonal: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Factors of rows, `[n]`: what the gradient of messages takes at once, and what its sum takes per entry.

    A diagonal takes the gradient as it is.
    """
    return (operator.row_scale, None) if diagonal is None else (None, operator.row_scale)
