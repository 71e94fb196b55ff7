"""Rows of a state: permuted and updated under autograd; outside it read and written, views where contiguous."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.engine.block import Block
from gpnn.engine.step import check_width
from gpnn.kernels.autograd import first_order, is_plain
from gpnn.pages import empty_like

CPU_ROWS, GPU_ROWS = 1 << 16, 1 << 20


def step_rows(device: torch.device) -> int:
    """Rows that are encoded, scored or differentiated at one time."""
    return CPU_ROWS if device.type == "cpu" else GPU_ROWS


class Rows(Protocol):
    """States of which rows can be read, wherever they are."""

    def read(self, rows: Tensor | slice) -> Tensor:
        """Some rows, `[m, s]`, on the device that computes."""


@dataclass(frozen=True, eq=False)
class RowsByBlock:
    """Some plan rows of which each block of contiguous rows has its own.

    Attributes:
        rows: distinct, rising, `[n]`, on the device of the states.
    """

    rows: Tensor

    def of(self, block: slice) -> tuple[slice, Tensor | None]:
        """Where those of a block stand among them, and which of its rows they are, `[w]`; None: all."""
        ends = block.start, block.stop
        if ends not in self._found:
            first, last = torch.searchsorted(self._on_host, torch.tensor(ends)).tolist()
            every = last - first == block.stop - block.start
            self._found[ends] = slice(first, last), None if every else self.rows[first:last] - block.start
        return self._found[ends]

    @cached_property
    def _found(self) -> dict[tuple[int, int], tuple[slice, Tensor | None]]:
        return {}

    @cached_property
    def _on_host(self) -> Tensor:
        return self.rows.cpu()  # once: a copy for each block would wait for all work given before it


def select_rows(state: Tensor, rows: Tensor) -> Tensor:
    """state[rows], `[m, s]`, of distinct rows, whose gradients are written to their places, not added up."""
    return _Select.apply(state, rows)


class _Select(Function):
    @staticmethod
    def forward(ctx: Any, state: Tensor, rows: Tensor) -> Tensor:
        ctx.rows, ctx.num_rows = rows, len(state)
        return read_rows(state, rows)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        total = empty_like(grad[:1].expand(ctx.num_rows, -1)).zero_()
        write_rows(total, ctx.rows, grad)
        return total, None


def permute_rows(state: Tensor, order: Tensor, place: Tensor) -> Tensor:
    """state[order], `[n, s]`, where `place` is the permutation back; gradients are gathered by it, not added up."""
    return state.index_select(0, order) if is_plain() else _Permute.apply(state, order, place)


class _Permute(Function):
    @staticmethod
    def forward(ctx: Any, state: Tensor, order: Tensor, place: Tensor) -> Tensor:
        ctx.order, ctx.place = order, place
        return state.index_select(0, order) if state.is_cuda else read_rows(state, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return permute_rows(grad, ctx.place, ctx.order), None, None


def read_rows(state: Tensor | Rows, rows: Tensor | slice) -> Tensor:
    """state[rows], `[m, s]`; a view where they are contiguous."""
    if not isinstance(state, Tensor):
        return state.read(rows)
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


def add_inputs(state: Tensor, block: Block, values: Tensor | None) -> None:
    """Add values for the inputs of `block`, `[m, s]`, to their rows; a row that is both written and held gets two."""
    if values is not None:
        add_rows(state, block.rows, values[: block.num_rows])
        add_rows(state, block.others, values[block.num_rows :])


def _kernels(state: Tensor) -> Any:
    """The module that moves rows on the state's device: torch's own adding sorts on a CPU, and has atomics on a GPU."""
    if state.is_cuda:
        from gpnn.kernels import gpu_rows

        return gpu_rows
    from gpnn.kernels import cpu

    return cpu


def update_rows(state: Tensor, block: Block, advance: Callable[[Tensor], Tensor], *, overwrite: bool = False) -> Tensor:
    """The state, `[N, s]`, whose rows that `block` writes are what `advance` makes of those that it reads.

    The gradients of rows that are read are added to that of the rows that stay, in its own memory. With `overwrite`
    nobody else needs the state: where no gradients are wanted, its rows are replaced in place.
    """
    if is_plain():
        return _updated(state, block, advance(block.read(state)))
    if writes_all(block, state):
        return advance(state if block.num_inputs == len(state) else _Append.apply(state, block.others))
    if overwrite and not torch.is_grad_enabled():
        updated = advance(read_rows(state, block.inputs))
        check_width(updated, state)
        write_rows(state, block.rows, updated)
        return state
    inputs, rest = _Read.apply(state, block)
    updated = advance(inputs)
    check_width(updated, state)
    return _Write.apply(rest, block.rows, updated)


def writes_all(block: Block, state: Tensor) -> bool:
    """Whether a block writes every row of a state, so that :func:`update_rows` makes no copy of others."""
    return isinstance(block.rows, slice) and block.num_rows == len(state)


def _updated(state: Tensor, block: Block, rows: Tensor) -> Tensor:
    """A copy of the state with other rows where `block` writes, by torch's own operations."""
    check_width(rows, state)
    if isinstance(block.rows, Tensor):
        return state.index_copy(0, block.rows, rows)
    return torch.cat([state[: block.rows.start], rows, state[block.rows.stop :]])


class _Append(Function):
    """The state with copies of some of its rows after it, `[N + c, s]`."""

    @staticmethod
    def forward(ctx: Any, state: Tensor, rows: Tensor | slice) -> Tensor:
        ctx.rows, ctx.num_rows = rows, len(state)
        return torch.cat([state, read_rows(state, rows)])

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        own = ctx.num_rows
        total = empty_like(grad[:own]).copy_(grad[:own])
        add_rows(total, ctx.rows, grad[own:])
        return total, None


class _Read(Function):
    """The inputs of a block, `[m, s]`, and the state itself, for :class:`_Write` alone."""

    @staticmethod
    def forward(ctx: Any, state: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        ctx.block = block
        return read_rows(state, block.inputs), state.view_as(state)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, rest: Tensor) -> tuple[Tensor, None]:
        add_inputs(rest, ctx.block, grad)  # the memory that `_Write` made, and nobody else has
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


class HeldRows:
    """Rows of the blocks of a phase that are set aside until all blocks are done.

    On a CPU they share one piece of memory on large pages, which later tensors use again; many small ones would stay
    in the allocator's heap.

    Args:
        blocks: each holds its own rows.
        like: a state, `[N + V, s]`.
    """

    def __init__(self, blocks: Sequence[Block], like: Tensor) -> None:
        self._ends = np.cumsum([block.num_rows for block in blocks]).tolist()
        self._shared = empty_like(like[: self._ends[-1]]) if blocks and like.device.type == "cpu" else None
        self._rows: list[Tensor | None] = [None] * len(blocks)

    def put(self, number: int, rows: Tensor) -> None:
        """Set the rows of a block aside, `[n, s]`."""
        if self._shared is not None:
            rows = self._shared[self._ends[number] - len(rows) : self._ends[number]].copy_(rows)
        self._rows[number] = rows

    def pop(self, number: int) -> Tensor:
        """The rows of a block, once."""
        rows, self._rows[number] = self._rows[number], None
        assert rows is not None
        return rows
