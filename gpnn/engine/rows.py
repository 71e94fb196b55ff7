"""Rows of a state put in another order, and, outside autograd, read and written: views where they are contiguous."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function


def permute_rows(state: Tensor, order: Tensor, place: Tensor) -> Tensor:
    """state[order], `[n, s]`, where `place` is the permutation back; gradients are gathered by it, not added up."""
    return _Permute.apply(state, order, place)


class _Permute(Function):
    @staticmethod
    def forward(ctx: Any, state: Tensor, order: Tensor, place: Tensor) -> Tensor:
        ctx.order, ctx.place = order, place
        return state.index_select(0, order) if state.is_cuda else read_rows(state, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return permute_rows(grad, ctx.place, ctx.order), None, None


def read_rows(state: Tensor, rows: Tensor | slice) -> Tensor:
    """state[rows], `[m, s]`; a view where they are contiguous."""
    if isinstance(rows, slice):
        return state[rows]
    if state.is_cuda:
        from gpnn.kernels.gpu_move import gather_rows
    else:
        from gpnn.kernels.cpu import gather_rows
    return gather_rows(state, rows)


def write_rows(state: Tensor, rows: Tensor | slice, values: Tensor) -> None:
    """state[rows] = values; the rows are distinct."""
    if isinstance(rows, Tensor) and state.is_cuda:
        from gpnn.kernels.gpu_move import put_rows

        put_rows(state, rows, values)
    else:
        state[rows] = values


def take_rows(state: Tensor, rows: Tensor | slice) -> Tensor:
    """A copy of state[rows], `[m, s]`, which then are zero."""
    if isinstance(rows, Tensor) and state.is_cuda:
        from gpnn.kernels.gpu_move import take_rows as take

        return take(state, rows)
    taken = state[rows].clone() if isinstance(rows, slice) else state[rows]
    state[rows] = 0
    return taken


def add_rows(state: Tensor, rows: Tensor | slice, values: Tensor | None) -> None:
    """state[rows] += values; None adds nothing."""
    if values is None:
        return
    if isinstance(rows, slice):
        state[rows] += values
    elif state.is_cuda:  # torch's own uses atomics, which are slow in half precision
        from gpnn.kernels.gpu_move import add_rows as add

        add(state, rows, values)
    else:
        state.index_add_(0, rows, values)
