"""Rows of a matrix read, taken, put and added to on the CPU, outside autograd: a range of rows per thread."""

from collections.abc import Callable

import torch
from numba import njit
from torch import Tensor

from gpnn.kernels.cpu import AHEAD, NEAR_BYTES, launch
from gpnn.kernels.simd import CACHE_LINE, narrow, prefetch, widen
from gpnn.pages import empty_large

TYPES = (torch.float32, torch.float64, torch.bfloat16)  # those that kernels know


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows], `[m, d]`."""
    if x.dtype not in TYPES:
        return x.detach().index_select(0, rows)
    values = empty_large(rows.numel(), x.shape[1], dtype=x.dtype)
    _launch(_gather, rows, x.contiguous(), values)
    return values


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows], `[m, d]`, leaving zeros where it was; the rows are distinct."""
    if not _can_write(x):
        taken = x[rows]
        x[rows] = 0
        return taken
    values = empty_large(rows.numel(), x.shape[1], dtype=x.dtype)
    _launch(_take, rows, x, values)
    return values


def put_rows(x: Tensor, rows: Tensor, values: Tensor) -> None:
    """x[rows] = values, `[m, d]`; the rows are distinct."""
    if _can_write(x):
        _launch(_put, rows, x, values.to(x.dtype).contiguous())
    else:
        x[rows] = values


def add_rows(x: Tensor, rows: Tensor, values: Tensor) -> None:
    """x[rows] += values, `[m, d]`; the rows are distinct, so that no thread waits for another."""
    if _can_write(x):
        _launch(_add, rows, x, values.to(x.dtype).contiguous())
    else:
        x.index_add_(0, rows, values)


def _can_write(x: Tensor) -> bool:
    return x.dtype in TYPES and x.is_contiguous()


def _launch(kernel: Callable[..., None], rows: Tensor, x: Tensor, values: Tensor) -> None:
    launch(kernel, len(values), values.numel(), rows, x, values)


@njit(inline="always")
def _find(i, rows, x, far):  # type: ignore[no-untyped-def]
    """The i-th row's number; a later row is prefetched where rows may be far."""
    if far:
        later = rows[min(i + AHEAD, len(rows) - 1)]
        for j in range(0, x.shape[1], CACHE_LINE // x.itemsize):
            prefetch(x, later, j)
    return rows[i]


@njit(cache=True, nogil=True)
def _gather(start, stop, rows, x, values):  # type: ignore[no-untyped-def]
    far = x.nbytes > NEAR_BYTES
    for i in range(start, stop):
        row = _find(i, rows, x, far)
        for j in range(x.shape[1]):
            values[i, j] = x[row, j]


@njit(cache=True, nogil=True)
def _take(start, stop, rows, x, values):  # type: ignore[no-untyped-def]
    far = x.nbytes > NEAR_BYTES
    for i in range(start, stop):
        row = _find(i, rows, x, far)
        for j in range(x.shape[1]):
            values[i, j] = x[row, j]
        for j in range(x.shape[1]):
            x[row, j] = 0


@njit(cache=True, nogil=True)
def _put(start, stop, rows, x, values):  # type: ignore[no-untyped-def]
    far = x.nbytes > NEAR_BYTES
    for i in range(start, stop):
        row = _find(i, rows, x, far)
        for j in range(x.shape[1]):
            x[row, j] = values[i, j]


@njit(cache=True, nogil=True)
def _add(start, stop, rows, x, values):  # type: ignore[no-untyped-def]
    far = x.nbytes > NEAR_BYTES
    for i in range(start, stop):
        row = _find(i, rows, x, far)
        for j in range(x.shape[1]):
            x[row, j] = narrow(widen(x[row, j]) + widen(values[i, j]), x[row, j])
