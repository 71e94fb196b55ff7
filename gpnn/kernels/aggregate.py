"""Aggregation of messages at their receivers: sum, max and min over an Operator, with gradients.

With learned weights, the weighted sum and the dot product along edges, which are each other's gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.check import check_choice
from gpnn.csr import slices
from gpnn.kernels.autograd import aggregate_plain, first_order, is_plain
from gpnn.kernels.operator import Operator
from gpnn.pages import empty_large


def aggregate(operator: Operator, x: Tensor, how: str = "sum", fill: float = 0.0) -> Tensor:
    """The aggregate at each row of `operator` of the rows of `x` that it is connected to, `[R, d]`.

    Args:
        operator: the weighted adjacency, receivers by senders, `[R, C]`.
        x: a row for each column of the operator, `[C, d]`.
        how: "sum", "max" or "min" of the weighted rows.
        fill: the value of a row without entries, under "max" and "min".

    Raises:
        ValueError: when `how` is unknown or the shapes do not fit.

    >>> op = Operator.from_edges(torch.tensor([0, 0]), torch.tensor([0, 1]), None, (2, 2))
    >>> aggregate(op, torch.tensor([[-1.0], [-3.0]]), "max").tolist()
    [[-1.0], [0.0]]
    """
    check_choice("how", how, AGGREGATORS)
    if x.dim() != 2 or x.shape[0] != operator.shape[1]:
        raise ValueError(f"`x` must have {operator.shape[1]} rows. Got shape {list(x.shape)}.")
    return aggregate_plain(operator, x, how, fill) if is_plain() else AGGREGATORS[how](operator, x, fill)


class _Sum(Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, x: Tensor) -> Tensor:
        ctx.operator = operator
        return _weighted_sum(operator, x)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, _weighted_sum_transposed(ctx.operator, grad)


class _Extreme(Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, x: Tensor, sign: int, fill: float) -> Tensor:
        out, winner = _weighted_extreme(operator, x, sign, fill)
        ctx.operator = operator
        ctx.save_for_backward(winner)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None, None]:
        (winner,) = ctx.saved_tensors
        return None, _extreme_backward(ctx.operator, winner, grad), None, None


AGGREGATORS: dict[str, Callable[[Operator, Tensor, float], Tensor]] = {
    "sum": lambda operator, x, fill: _Sum.apply(operator, x),
    "max": lambda operator, x, fill: _Extreme.apply(operator, x, 1, fill),
    "min": lambda operator, x, fill: _Extreme.apply(operator, x, -1, fill),
}


def _weighted_sum(operator: Operator, x: Tensor) -> Tensor:
    if x.is_cuda:
        from gpnn.kernels.gpu import weighted_sum

        parts = (operator.ptr, operator.col, None, operator.weight, x.detach().contiguous())
        return weighted_sum(*parts, source_scale=operator.col_scale, row_scale=operator.row_scale)
    entries = (operator.ptr, operator.col, operator.col[:0], operator.weight)
    return sum_on_cpu(*entries, x, scale=operator.col_scale, row_scale=operator.row_scale)


def _weighted_sum_transposed(operator: Operator, grad: Tensor) -> Tensor:
    entries = (operator.t_ptr, operator.t_row, operator.t_entry, operator.weight)
    if grad.is_cuda:
        from gpnn.kernels.gpu import weighted_sum

        scales = operator.row_scale, operator.col_scale
        return weighted_sum(*entries, grad.contiguous(), source_scale=scales[0], row_scale=scales[1])
    return sum_on_cpu(*entries, grad, scale=operator.row_scale, row_scale=operator.col_scale)


def sum_on_cpu(
    ptr: Tensor,
    index: Tensor,
    entry: Tensor,
    weight: Tensor | None,
    x: Tensor,
    *,
    scale: Tensor | None = None,
    row_scale: Tensor | None = None,
    base: Tensor | None = None,
) -> Tensor:
    """row_scale · (base + Σ weight[entry] · scale[index] · x[index]) over the entries of each row, `[R, d]`.

    None stands for factors of one, and for no base, `[R, d]`; an empty `entry` for the entry itself.
    """
    from gpnn.kernels.cpu import add_weighted_sum, factors, launch

    dtype, x = x.dtype, x.detach().contiguous()
    x = x.float() if dtype == torch.float16 else x
    out = empty_large(ptr.numel() - 1, x.shape[1], dtype=x.dtype)
    values = (factors(each, x) for each in (weight, scale, row_scale))
    added = out[:0] if base is None else base
    launch(add_weighted_sum, len(out), index.numel() * x.shape[1], ptr, index, entry, *values, x, added, out)
    return out.to(dtype)


def _weighted_extreme(operator: Operator, x: Tensor, sign: int, fill: float) -> tuple[Tensor, Tensor]:
    if x.is_cuda:
        from gpnn.kernels import gpu

        return gpu.weighted_max(operator.ptr, operator.col, operator.weight, sign, x.detach().contiguous(), fill)
    from gpnn.kernels.cpu import factors, launch, weighted_max

    like, x = x, _wide(x)
    out = torch.full((operator.shape[0], x.shape[1]), fill, dtype=x.dtype)
    winner = torch.empty(out.shape, dtype=operator.entry_of.dtype)
    edges = (operator.ptr, operator.col, factors(operator.weight, x))
    launch(weighted_max, len(out), operator.num_entries * x.shape[1], *edges, sign, x, out, winner)
    return out.to(like), winner


def _extreme_backward(operator: Operator, winner: Tensor, grad: Tensor) -> Tensor:
    parts = (operator.t_ptr, operator.t_row, operator.entry_of)
    if grad.is_cuda:
        from gpnn.kernels import gpu

        return gpu.weighted_max_backward(*parts, operator.weight, winner, grad.contiguous())
    from gpnn.kernels.cpu import factors, launch, weighted_max_backward

    like, grad = grad, _wide(grad)
    out = torch.empty(operator.shape[1], grad.shape[1], dtype=grad.dtype)
    arrays = (*parts, factors(operator.weight, grad), winner, grad, out)
    launch(weighted_max_backward, len(out), operator.num_entries * grad.shape[1], *arrays)
    return out.to(like)


def _wide(x: Tensor) -> Tensor:
    """Rows that the CPU kernels can read: half precision becomes single, in which sums are taken anyway."""
    return x.detach().contiguous().to(torch.float64 if x.dtype == torch.float64 else torch.float32)


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
    for part in slices(len(out), step):
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
