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
    return state[rows] if isinstance(rows, slice) else _kernels(state).gather_rows(state, rows)


def write_rows(state: Tensor, rows: Tensor | slice, values: Tensor) -> None:
    """state[rows] = values; the rows are distinct."""
    if isinstance(rows, slice):
        state[rows] = values
    else:
        _kernels(state).put_rows(state, rows, values)


def take_rows(state: Tensor, rows: Tensor | slice) -> Tensor:
    """A copy of state[rows], `[m, s]`, which then are zero; the rows are distinct."""
    if isinstance(rows, Tensor):
        return _kernels(state).take_rows(state, rows)
    taken = state[rows].clone()
    state[rows] = 0
    return taken


def add_rows(state: Tensor, rows: Tensor | slice, values: Tensor | None) -> None:
    """state[rows] += values; the rows are distinct, and None adds nothing."""
    if values is None:
        return
    if isinstance(rows, slice):
        state[rows] += values
    else:
        _kernels(state).add_rows(state, rows, values)


def _kernels(state: Tensor) -> Any:
    """The module that moves rows on the state's device: torch's own adding sorts on a CPU, and has atomics on a GPU."""
    if state.is_cuda:
        from gpnn.kernels import gpu_move

        return gpu_move
    from gpnn.kernels import cpu_move

    return cpu_move
