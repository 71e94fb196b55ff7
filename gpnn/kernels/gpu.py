"""The GPU kernels, in Triton: one program a row and column tile, no atomics, no [E, d] temporary."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def weighted_sum(ptr: Tensor, index: Tensor, entry: Tensor | None, weight: Tensor | None, x: Tensor) -> Tensor:
    """out[r] = Σ of weight · x[index] over the entries of row r, `[R, d]`; sums are taken in float32 or better."""
    out = torch.empty(ptr.numel() - 1, x.shape[1], dtype=x.dtype, device=x.device)
    if out.numel():
        tile = _tile(x)
        _weighted_sum[(out.shape[0], triton.cdiv(x.shape[1], tile))](
            *(ptr, index, index if entry is None else entry, x if weight is None else weight, x, out, x.shape[1]),
            WEIGHTED=weight is not None,
            PERMUTED=entry is not None,
            DOUBLE=x.dtype == torch.float64,
            TILE=tile,
            num_warps=1 if tile <= 128 else 2,
        )
    return out


def weighted_max(
    ptr: Tensor, index: Tensor, weight: Tensor | None, sign: int, x: Tensor, fill: float
) -> tuple[Tensor, Tensor]:
    """The largest of sign · weight · x[index] over each row, times sign, and the entry that gave it (−1: none)."""
    out = torch.empty(ptr.numel() - 1, x.shape[1], dtype=x.dtype, device=x.device)
    winner = torch.empty(out.shape, dtype=index.dtype, device=x.device)
    if out.numel():
        tile = _tile(x)
        _weighted_max[(out.shape[0], triton.cdiv(x.shape[1], tile))](
            *(ptr, index, x if weight is None else weight, x, out, winner, x.shape[1], float(sign), float(fill)),
            WEIGHTED=weight is not None,
            DOUBLE=x.dtype == torch.float64,
            TILE=tile,
            num_warps=1 if tile <= 128 else 2,
        )
    return out, winner


def weighted_max_backward(
    t_ptr: Tensor, t_row: Tensor, t_entry: Tensor, weight: Tensor | None, winner: Tensor, grad: Tensor
) -> Tensor:
    """out[c] = Σ of weight · grad[row] over the entries of column c that won their row, `[C, d]`."""
    out = torch.empty(t_ptr.numel() - 1, grad.shape[1], dtype=grad.dtype, device=grad.device)
    if out.numel():
        tile = _tile(grad)
        _weighted_max_backward[(out.shape[0], triton.cdiv(grad.shape[1], tile))](
            *(t_ptr, t_row, t_entry, grad if weight is None else weight, winner, grad, out, grad.shape[1]),
            WEIGHTED=weight is not None,
            DOUBLE=grad.dtype == torch.float64,
            TILE=tile,
            num_warps=1 if tile <= 128 else 2,
        )
    return out


def _tile(x: Tensor) -> int:
    return min(256, max(16, triton.next_power_of_2(x.shape[1])))


@triton.jit
def _weighted_sum(  # type: ignore[no-untyped-def]
    ptr, index, entry, weight, x, out, width, WEIGHTED: tl.constexpr, PERMUTED: tl.constexpr, DOUBLE: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < width
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    total = tl.zeros((TILE,), wide)
    for e in range(tl.load(ptr + row), tl.load(ptr + row + 1)):
        source = tl.load(index + e).to(tl.int64)
        value = tl.load(x + source * width + column, mask=inside, other=0).to(wide)
        if WEIGHTED:
            at = tl.load(entry + e) if PERMUTED else e
            value *= tl.load(weight + at).to(wide)
        total += value
    tl.store(out + row * width + column, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _weighted_max(  # type: ignore[no-untyped-def]
    ptr, index, weight, x, out, winner, width, sign, fill, WEIGHTED: tl.constexpr, DOUBLE: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < width
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    best = tl.full((TILE,), float("-inf"), wide)
    chosen = tl.full((TILE,), -1, tl.int64)
    for e in range(tl.load(ptr + row), tl.load(ptr + row + 1)):
        source = tl.load(index + e).to(tl.int64)
        value = sign * tl.load(x + source * width + column, mask=inside, other=0).to(wide)
        if WEIGHTED:
            value *= tl.load(weight + e).to(wide)
        better = (value > best) | (chosen < 0)
        best = tl.where(better, value, best)
        chosen = tl.where(better, e, chosen)
    result = tl.where(chosen < 0, fill, sign * best)
    tl.store(out + row * width + column, result.to(out.dtype.element_ty), mask=inside)
    tl.store(winner + row * width + column, chosen.to(winner.dtype.element_ty), mask=inside)


@triton.jit
def _weighted_max_backward(  # type: ignore[no-untyped-def]
    t_ptr, t_row, t_entry, weight, winner, grad, out, width, WEIGHTED: tl.constexpr, DOUBLE: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    col = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < width
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    total = tl.zeros((TILE,), wide)
    for t in range(tl.load(t_ptr + col), tl.load(t_ptr + col + 1)):
        row = tl.load(t_row + t).to(tl.int64)
        e = tl.load(t_entry + t).to(tl.int64)
        won = tl.load(winner + row * width + column, mask=inside, other=-1).to(tl.int64) == e
        value = tl.load(grad + row * width + column, mask=inside & won, other=0).to(wide)
        if WEIGHTED:
            value *= tl.load(weight + e).to(wide)
        total += value
    tl.store(out + col * width + column, total.to(out.dtype.element_ty), mask=inside)
