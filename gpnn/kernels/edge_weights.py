"""Edges with learned weights: the weighted sum and the dot product along edges, which are each other's gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.aggregate import aggregate
from gpnn.kernels.first_order import first_order
from gpnn.kernels.operator import Operator

_CHUNK = 1 << 24  # numbers that are gathered at a time, on a GPU


def sum_edges(operator: Operator, weight: Tensor, x: Tensor) -> Tensor:
    """The sum of weight[e] · x[col[e]] over the entries e of each row, `[R, d]`, with gradients to weights and rows.

    Args:
        operator: the entries; its own weights are ignored.
        weight: of each entry, in row order, `[E]`.
        x: a row for each column, `[C, d]`.

    >>> op = Operator.from_edges(torch.tensor([0, 0]), torch.tensor([0, 1]), None, (1, 2))
    >>> sum_edges(op, torch.tensor([2.0, 3.0]), torch.tensor([[1.0], [10.0]])).tolist()
    [[32.0]]
    """
    return _SumEdges.apply(operator, weight, x)


def dot_edges(operator: Operator, x: Tensor, y: Tensor) -> Tensor:
    """The dot product x[row[e]] · y[col[e]] of each entry e, in row order, `[E]`, with gradients to both.

    Args:
        operator: the entries; its weights are ignored.
        x: a row for each row of the operator, `[R, d]`.
        y: a row for each column, `[C, d]`.

    >>> op = Operator.from_edges(torch.tensor([0, 0]), torch.tensor([0, 1]), None, (1, 2))
    >>> dot_edges(op, torch.tensor([[1.0, 2.0]]), torch.eye(2)).tolist()
    [1.0, 2.0]
    """
    return _DotEdges.apply(operator, x, y)


class _SumEdges(Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, weight: Tensor, x: Tensor) -> Tensor:
        ctx.operator = operator
        ctx.save_for_backward(weight, x)
        return aggregate(operator.with_weight(weight), x)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        operator, (weight, x), needed = ctx.operator, ctx.saved_tensors, ctx.needs_input_grad
        to_weight = _dot(operator, grad, x) if needed[1] else None
        return None, to_weight, _transposed(operator, weight, grad) if needed[2] else None


class _DotEdges(Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, x: Tensor, y: Tensor) -> Tensor:
        ctx.operator = operator
        ctx.save_for_backward(x, y)
        return _dot(operator, x, y)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        operator, (x, y), needed = ctx.operator, ctx.saved_tensors, ctx.needs_input_grad
        to_x = aggregate(operator.with_weight(grad.contiguous()), y) if needed[1] else None
        return None, to_x, _transposed(operator, grad.contiguous(), x) if needed[2] else None


def _dot(operator: Operator, x: Tensor, y: Tensor) -> Tensor:
    out = x.new_empty(operator.num_entries)
    if not x.is_cuda:
        from gpnn.kernels.cpu import dot_entries, launch

        work = operator.num_entries * x.shape[1]
        launch(dot_entries, operator.shape[0], work, operator.ptr, operator.col, x.contiguous(), y.contiguous(), out)
        return out
    rows, step = operator.rows(), max(1, _CHUNK // max(1, x.shape[1]))
    for start in range(0, len(out), step):
        part = slice(start, start + step)
        out[part] = torch.einsum("ed,ed->e", x[rows[part]], y[operator.col[part].long()])
    return out


def _transposed(operator: Operator, weight: Tensor, grad: Tensor) -> Tensor:
    """The sum of weight[e] · grad[row[e]] over the entries of each column, `[C, d]`."""
    back = Operator(
        (operator.shape[1], operator.shape[0]),
        operator.t_ptr,
        operator.t_row,
        weight[operator.entry_of.long()],
        operator.ptr,
        operator.col,
        operator.t_entry[:0],
    )
    return aggregate(back, grad)
