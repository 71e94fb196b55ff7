"""The Triton kernels that walk rows: those of an operator, and those of a matrix that are moved by an index.

Of an operator one program takes a row, or a piece of a row, and a column tile. Sums are taken in float32 (float64 for
float64), in an order that the layout fixes: no atomics, the same bits each run. Distinct rows move as fast as a copy.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def sum_rows(  # type: ignore[no-untyped-def]
    start, stop, index, entry, weight, winner, source_scale, row_scale, diagonal, add, x, out, num_rows, width,
    num_own, num_added, limit,
    WEIGHTED: tl.constexpr, PERMUTED: tl.constexpr, WON: tl.constexpr, SOURCE_SCALED: tl.constexpr,
    ROW_SCALED: tl.constexpr, DIAGONAL: tl.constexpr, ADDED: tl.constexpr, DOUBLE: tl.constexpr, TILE: tl.constexpr,
    ROWS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """out[r] = add[r] + diagonal[r] · x[r] + row_scale[r] · Σ weight · source_scale · x[index], over short rows.

    Those have at most `limit` entries; the first `num_own` rows have a diagonal, the first `num_added` an addend.

    With WON only the entries that `winner` names for their row and column count. Several rows per program keep enough
    reads on their way where rows are short.
    """
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < width
    first = tl.load(start + row, mask=row < num_rows, other=0)
    last = tl.load(stop + row, mask=row < num_rows, other=0)
    mine = (row < num_rows) & (last - first <= limit)
    last = tl.where(mine, last, first)
    total = tl.zeros((ROWS, EDGES, TILE), wide)
    at = first[:, None] + tl.arange(0, EDGES)[None, :]
    live = at < last[:, None]
    source = tl.load(index + at, mask=live, other=0)
    for _ in range(0, tl.max(last - first, 0), EDGES):
        later = at + EDGES  # the next entries' sources are on their way while these are read
        later_live = later < last[:, None]
        later_source = tl.load(index + later, mask=later_live, other=0)
        source = source.to(tl.int64)
        place = source[:, :, None] * width + column[None, None, :]
        wanted = live[:, :, None] & inside[None, None, :]
        if WON:
            name = tl.load(entry + at, mask=live, other=0).to(tl.int64)
            wanted = wanted & (tl.load(winner + place, mask=wanted, other=-1).to(tl.int64) == name[:, :, None])
        value = tl.load(x + place, mask=wanted, other=0).to(wide)
        if WEIGHTED:
            which = tl.load(entry + at, mask=live, other=0).to(tl.int64) if PERMUTED else at
            value *= tl.load(weight + which, mask=live, other=0).to(wide)[:, :, None]
        if SOURCE_SCALED:
            value *= tl.load(source_scale + source, mask=live, other=0).to(wide)[:, :, None]
        total += value
        at, live, source = later, later_live, later_source
    result = tl.sum(total, 1)
    if ROW_SCALED:
        result *= tl.load(row_scale + row, mask=mine, other=0).to(wide)[:, None]
    place = row[:, None] * width + column[None, :]
    if DIAGONAL:
        own = mine & (row < num_own)
        value = tl.load(x + place, mask=own[:, None] & inside[None, :], other=0).to(wide)
        result += tl.load(diagonal + row, mask=own, other=0).to(wide)[:, None] * value
    if ADDED:
        added = (mine & (row < num_added))[:, None] & inside[None, :]
        result += tl.load(add + place, mask=added, other=0).to(wide)
    tl.store(out + place, result.to(out.dtype.element_ty), mask=mine[:, None] & inside[None, :])


@triton.jit
def combine_sums(  # type: ignore[no-untyped-def]
    rows, first, partial, row_scale, diagonal, add, x, out, width, num_own, num_added,
    ROW_SCALED: tl.constexpr, DIAGONAL: tl.constexpr, ADDED: tl.constexpr, DOUBLE: tl.constexpr, TILE: tl.constexpr,
    PIECES: tl.constexpr,
):  # fmt: skip
    """out[rows[i]] = add + diagonal · x + row_scale · Σ of the partial sums of long row i, in their order."""
    row = tl.load(rows + tl.program_id(0)).to(tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < width
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    total = tl.zeros((PIECES, TILE), wide)
    last = tl.load(first + tl.program_id(0) + 1)
    for s in range(tl.load(first + tl.program_id(0)), last, PIECES):
        at = s + tl.arange(0, PIECES)
        wanted = (at < last)[:, None] & inside[None, :]
        total += tl.load(partial + at[:, None] * width + column[None, :], mask=wanted, other=0)
    result = tl.sum(total, 0)
    if ROW_SCALED:
        result *= tl.load(row_scale + row).to(wide)
    if DIAGONAL:
        own = column < tl.where(row < num_own, width, 0)
        value = tl.load(x + row * width + column, mask=own, other=0).to(wide)
        result += tl.load(diagonal + row, mask=row < num_own, other=0).to(wide) * value
    if ADDED:
        result += tl.load(add + row * width + column, mask=column < tl.where(row < num_added, width, 0), other=0).to(
            wide
        )
    tl.store(out + row * width + column, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def max_rows(  # type: ignore[no-untyped-def]
    start, stop, index, weight, x, best, winner, width, sign, limit,
    WEIGHTED: tl.constexpr, DOUBLE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """best[r] = the largest sign · weight · x[index] of row r, and the entry that gave it: the first of equal ones."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < width
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    first = tl.load(start + row)
    last = tl.load(stop + row)
    if last - first <= limit:
        largest = tl.full((TILE,), float("-inf"), wide)
        chosen = tl.full((TILE,), -1, tl.int64)
        for e in range(first, last):
            source = tl.load(index + e).to(tl.int64)
            value = sign * tl.load(x + source * width + column, mask=inside, other=0).to(wide)
            if WEIGHTED:
                value *= tl.load(weight + e).to(wide)
            better = (value > largest) | (chosen < 0)
            largest = tl.where(better, value, largest)
            chosen = tl.where(better, e, chosen)
        tl.store(best + row * width + column, largest, mask=inside)
        tl.store(winner + row * width + column, chosen.to(winner.dtype.element_ty), mask=inside)


@triton.jit
def combine_maxima(  # type: ignore[no-untyped-def]
    rows, first, partial, partial_winner, best, winner, width, DOUBLE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The largest of the pieces of long row i, and its entry; the first of equal ones."""
    row = tl.load(rows + tl.program_id(0)).to(tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < width
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    largest = tl.full((TILE,), float("-inf"), wide)
    chosen = tl.full((TILE,), -1, tl.int64)
    for s in range(tl.load(first + tl.program_id(0)), tl.load(first + tl.program_id(0) + 1)):
        value = tl.load(partial + s * width + column, mask=inside, other=0)
        name = tl.load(partial_winner + s * width + column, mask=inside, other=-1).to(tl.int64)
        better = (value > largest) | (chosen < 0)
        largest = tl.where(better, value, largest)
        chosen = tl.where(better, name, chosen)
    tl.store(best + row * width + column, largest, mask=inside)
    tl.store(winner + row * width + column, chosen.to(winner.dtype.element_ty), mask=inside)


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
