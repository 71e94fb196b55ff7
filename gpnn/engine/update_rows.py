"""update_rows: a state in which a block's rows are new, differentiated with as few passes over all rows as can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.autograd import Function

from gpnn.engine.block import Block
from gpnn.engine.rows import add_rows, read_rows, take_rows, write_rows
from gpnn.engine.step import check_width
from gpnn.kernels.first_order import first_order
from gpnn.kernels.pages import empty_like


def update_rows(state: Tensor, block: Block, advance: Callable[[Tensor], Tensor]) -> Tensor:
    """The state, `[N, s]`, whose rows that `block` writes are what `advance` makes of those that it reads.

    The gradients of rows that are read are added to that of the rows that stay, in its own memory.
    """
    if isinstance(block.inputs, slice) and block.num_rows == len(state):
        return advance(state)
    inputs, rest = _Read.apply(state, block.inputs)
    updated = advance(inputs)
    check_width(updated, state)
    return _Write.apply(rest, block.rows, updated)


class _Read(Function):
    """The rows, `[m, s]`, and the state itself, for :class:`_Write` alone."""

    @staticmethod
    def forward(ctx: Any, state: Tensor, rows: Tensor | slice) -> tuple[Tensor, Tensor]:
        ctx.rows = rows
        return read_rows(state, rows), state.view_as(state)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, rest: Tensor) -> tuple[Tensor, None]:
        add_rows(rest, ctx.rows, grad)  # the memory that `_Write` made, and nobody else has
        return rest, None


class _Write(Function):
    """A copy of the state with other rows."""

    @staticmethod
    def forward(ctx: Any, rest: Tensor, rows: Tensor | slice, values: Tensor) -> Tensor:
        ctx.rows, state = rows, empty_like(rest).copy_(rest)
        write_rows(state, rows, values)
        return state

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor]:
        rest = empty_like(grad).copy_(grad)
        return rest, None, take_rows(rest, ctx.rows)
