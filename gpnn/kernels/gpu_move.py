"""Rows moved on a GPU by an index of distinct rows, at the rate of a copy."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 8  # rows per program


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows], `[m, d]`."""
    out = x.new_empty(rows.numel(), x.shape[1])
    _launch(_gather, rows, x, out)
    return out


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows], `[m, d]`, leaving zeros where it was."""
    out = x.new_empty(rows.numel(), x.shape[1])
    _launch(_take, rows, x, out)
    return out


def put_rows(x: Tensor, rows: Tensor, values: Tensor) -> None:
    """x[rows] = values, `[m, d]`."""
    _launch(_put, rows, x, values.contiguous())


def add_rows(x: Tensor, rows: Tensor, values: Tensor) -> None:
    """x[rows] += values, `[m, d]`, without atomics: the rows are distinct."""
    _launch(_add, rows, x, values.contiguous(), DOUBLE=x.dtype == torch.float64)


def _launch(kernel: Any, rows: Tensor, x: Tensor, values: Tensor, **flags: bool) -> None:
    if values.numel():
        assert x.is_contiguous()
        tile = min(256, max(16, triton.next_power_of_2(x.shape[1])))
        grid = (triton.cdiv(rows.numel(), ROWS), triton.cdiv(x.shape[1], tile))
        kernel[grid](rows, x, values, rows.numel(), x.shape[1], **flags, ROWS=ROWS, TILE=tile, num_warps=4)


@triton.jit
def _places(rows, num_rows, width, ROWS: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where a program's rows stand in the matrix and among the values, and which of them there are."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    row = tl.load(rows + i, mask=i < num_rows, other=0).to(tl.int64)
    live = (i < num_rows)[:, None] & (column < width)[None, :]
    return row[:, None] * width + column[None, :], i[:, None] * width + column[None, :], live


@triton.jit
def _gather(rows, x, values, num_rows, width, ROWS: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    there, here, live = _places(rows, num_rows, width, ROWS, TILE)
    tl.store(values + here, tl.load(x + there, mask=live), mask=live)


@triton.jit
def _take(rows, x, values, num_rows, width, ROWS: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    there, here, live = _places(rows, num_rows, width, ROWS, TILE)
    value = tl.load(x + there, mask=live, other=0)
    tl.store(values + here, value, mask=live)
    tl.store(x + there, tl.zeros_like(value), mask=live)


@triton.jit
def _put(rows, x, values, num_rows, width, ROWS: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    there, here, live = _places(rows, num_rows, width, ROWS, TILE)
    tl.store(x + there, tl.load(values + here, mask=live), mask=live)


@triton.jit
def _add(  # type: ignore[no-untyped-def]
    rows, x, values, num_rows, width, DOUBLE: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    there, here, live = _places(rows, num_rows, width, ROWS, TILE)
    total = tl.load(x + there, mask=live, other=0).to(wide) + tl.load(values + here, mask=live, other=0).to(wide)
    tl.store(x + there, total.to(x.dtype.element_ty), mask=live)
