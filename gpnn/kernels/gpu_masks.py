"""Random masks on a GPU: the hash of :mod:`gpnn.kernels.masks` in registers, in memory the mask or what it leaves."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, ENTRIES = 8, 1024  # a program's share


def fill_mask(key: int, rows: Tensor, threshold: int, scale: float, out: Tensor) -> None:
    """out[i, j] = scale where the hash of (key, rows[i], j) reaches the threshold, else 0."""
    if out.numel():
        tile = min(256, max(16, triton.next_power_of_2(out.shape[1])))
        grid = (triton.cdiv(len(out), ROWS), triton.cdiv(out.shape[1], tile))
        value = out.new_full((1,), scale)
        _fill[grid](*_words(key, threshold), rows.contiguous(), value, out, *out.shape, ROWS=ROWS, TILE=tile)


def fill_entries(key: int, rows: Tensor, columns: Tensor, threshold: int, scale: float, out: Tensor) -> None:
    """out[e] = scale where the hash of (key, rows[e], columns[e]) reaches the threshold, else 0."""
    if out.numel():
        value = out.new_full((1,), scale)
        arrays = (rows.contiguous(), columns.contiguous(), value, out, out.numel())
        _fill_entries[(triton.cdiv(out.numel(), ENTRIES),)](*_words(key, threshold), *arrays, ENTRIES=ENTRIES)


def mask_rows(key: int, rows: Tensor, threshold: int, scale: float, x: Tensor, out: Tensor, *, whole: bool) -> None:
    """out[i, j] = scale · x[i, j] where the hash of (key, rows[i], j) reaches the threshold, else 0, in `out`'s type.

    With `whole` that of (key, rows[i], 0) counts for all columns.
    """
    if out.numel():
        tile = min(256, max(16, triton.next_power_of_2(out.shape[1])))
        grid = (triton.cdiv(len(out), ROWS), triton.cdiv(out.shape[1], tile))
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        value = torch.full((1,), scale, dtype=wide, device=x.device)
        arrays = (rows.contiguous(), value, x.contiguous(), out, *out.shape)
        _mask[grid](*_words(key, threshold), *arrays, WHOLE=whole, ROWS=ROWS, TILE=tile)


def _words(key: int, threshold: int) -> tuple[int, ...]:
    """The two words of a key and the threshold as signed words: one type of argument, one compiled kernel."""
    words = (key & 0xFFFFFFFF, key >> 32, threshold)
    return tuple(word - (1 << 32) if word >> 31 else word for word in words)


@triton.jit
def _mix(x):  # type: ignore[no-untyped-def]
    """ "lowbias32" (Wellons 2018)."""
    x ^= x >> 16
    x *= 0x7FEB352D
    x ^= x >> 15
    x *= 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _kept(low, high, threshold, row, column):  # type: ignore[no-untyped-def]
    hashed = _mix(row.to(tl.uint32) ^ low.to(tl.uint32)) + column.to(tl.uint32) * 0x9E3779B9
    return _mix(hashed ^ high.to(tl.uint32)) >= threshold.to(tl.uint32)


@triton.jit(do_not_specialize=["low", "high", "threshold"])
def _fill(  # type: ignore[no-untyped-def]
    low, high, threshold, rows, value, out, num_rows, width, ROWS: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    row = tl.load(rows + i, mask=i < num_rows, other=0)
    kept = _kept(low, high, threshold, row[:, None], column[None, :])
    live = (i < num_rows)[:, None] & (column < width)[None, :]
    scale = tl.load(value)
    tl.store(out + i[:, None] * width + column[None, :], tl.where(kept, scale, scale * 0), mask=live)


@triton.jit(do_not_specialize=["low", "high", "threshold"])
def _mask(  # type: ignore[no-untyped-def]
    low, high, threshold, rows, value, x, out, num_rows, width, WHOLE: tl.constexpr, ROWS: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    row = tl.load(rows + i, mask=i < num_rows, other=0)
    kept = _kept(low, high, threshold, row[:, None], column[None, :] * 0 if WHOLE else column[None, :])
    live = (i < num_rows)[:, None] & (column < width)[None, :]
    place = i[:, None] * width + column[None, :]
    scale = tl.load(value)
    entry = tl.load(x + place, mask=live & kept, other=0).to(scale.dtype) * scale
    tl.store(out + place, entry.to(out.dtype.element_ty), mask=live)


@triton.jit(do_not_specialize=["low", "high", "threshold"])
def _fill_entries(  # type: ignore[no-untyped-def]
    low, high, threshold, rows, columns, value, out, count, ENTRIES: tl.constexpr
):  # fmt: skip
    e = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    live = e < count
    row, column = tl.load(rows + e, mask=live, other=0), tl.load(columns + e, mask=live, other=0)
    scale = tl.load(value)
    tl.store(out + e, tl.where(_kept(low, high, threshold, row, column), scale, scale * 0), mask=live)
