"""The CPU kernels, compiled once and cached on disk: a range of rows each, no atomics, no [E, d] temporary."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from gpnn.kernels.execution import share_rows
from gpnn.kernels.simd import (
    CACHE_LINE,
    add_scaled,
    narrow,
    prefetch,
    prefetch_vector,
    read_vector,
    scale_vector,
    widen,
    write_vector,
    zero_vector,
)
from gpnn.pages import empty_large

AHEAD = 64  # entries between the prefetch of a row and its use: longer than a row takes to arrive
WIDE, NARROW = 64, 16  # columns summed at a time: four registers, or one
ROWS = 64  # summed before the next columns are: few enough to find the entries' rows in the cache again
NEAR_BYTES = 1 << 20  # rows that take no more are in a core's cache already


def launch(kernel: Callable[..., None], num_rows: int, work: int, *arguments: Any) -> None:
    """Call a kernel on tensors and numbers, for ranges of `num_rows` rows, on as many threads as torch uses."""
    arrays = [as_array(value) if isinstance(value, Tensor) else value for value in arguments]
    share_rows(num_rows, work, lambda start, stop: kernel(start, stop, *arrays))


def as_array(tensor: Tensor) -> np.ndarray:
    """The tensor's own memory as kernels read it: bfloat16 as int16."""
    tensor = tensor.detach()
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def factors(values: Tensor | None, x: Tensor) -> Tensor:
    """Weights or scales in the type that sums over `x` are taken in; empty: all one."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return torch.empty(0, dtype=dtype) if values is None else values.detach().to(dtype)


@njit(cache=True, nogil=True)
def weighted_sum(start, stop, ptr, index, entry, weight, scale, row_scale, x, out):  # type: ignore[no-untyped-def]
    """out[r] = row_scale[r] · Σ of weight[entry] · scale[index] · x[index] over the entries of row r.

    Empty arrays stand for "all one", and an empty `entry` for the entry itself.
    """
    _sum_rows(start, stop, (ptr, index, entry, weight, scale, row_scale, x, out[:0], out))


@njit(cache=True, nogil=True)
def add_weighted_sum(  # type: ignore[no-untyped-def]
    start, stop, ptr, index, entry, weight, scale, row_scale, x, base, out
):
    """out[r] = row_scale[r] · (base[r] + Σ of weight[entry] · scale[index] · x[index]), as :func:`weighted_sum`."""
    _sum_rows(start, stop, (ptr, index, entry, weight, scale, row_scale, x, base, out))


@njit
def _sum_rows(start, stop, arrays):  # type: ignore[no-untyped-def]
    """Fill the last of the arrays, as many columns at a time as there are."""
    weight, width = arrays[3], arrays[6].shape[1]
    for first in range(start, stop, ROWS):
        last, column = min(first + ROWS, stop), 0
        while column + WIDE <= width:
            _sum_columns(zero_vector(weight, WIDE, False), WIDE, column, first, last, *arrays)
            column += WIDE
        while column + NARROW <= width:
            _sum_columns(zero_vector(weight, NARROW, False), NARROW, column, first, last, *arrays)
            column += NARROW
        if column < width:
            _sum_columns(zero_vector(weight, NARROW, True), NARROW, column, first, last, *arrays)


@njit
def _sum_columns(  # type: ignore[no-untyped-def]
    zeros, count, column, start, stop, ptr, index, entry, weight, scale, row_scale, x, base, out
):
    """`count` columns from `column` on; with the first ones, all columns of later entries are prefetched.

    For many rows in one call: counting the references to the arrays costs more than a narrow row.
    """
    prefetched = x.shape[1] if column == 0 and x.nbytes > NEAR_BYTES else 0
    for row in range(start, stop):
        total = read_vector(zeros, base, row, column) if len(base) else zeros
        for e in range(ptr[row], ptr[row + 1]):
            for other in range(0, prefetched, count):
                prefetch_vector(zeros, x, index[min(e + AHEAD, len(index) - 1)], other)
            factor = weight.dtype.type(1)
            if len(weight):
                factor = weight[entry[e]] if len(entry) else weight[e]
            if len(scale):
                factor *= scale[index[e]]
            total = add_scaled(total, factor, read_vector(zeros, x, index[e], column))
        if len(row_scale):
            total = scale_vector(total, row_scale[row])
        write_vector(total, out, row, column)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot_entries(start, stop, ptr, index, x, y, out):  # type: ignore[no-untyped-def]
    """out[e] = x[r] · y[index[e]] for the entries e of each row r."""
    for row in range(start, stop):
        for e in range(ptr[row], ptr[row + 1]):
            total, other = out.dtype.type(0), index[e]
            for j in range(x.shape[1]):
                total += x[row, j] * y[other, j]
            out[e] = total


@njit(cache=True, nogil=True)
def weighted_max(start, stop, ptr, index, weight, sign, x, out, winner):  # type: ignore[no-untyped-def]
    """out[r] = the largest (sign 1) or smallest (sign −1) of weight · x[index] over the row; `winner` is its entry.

    The first of equal entries wins. A row without entries keeps what `out` holds and has winner −1.
    """
    for row in range(start, stop):
        first = ptr[row]
        for j in range(x.shape[1]):
            winner[row, j] = -1
        for e in range(first, ptr[row + 1]):
            source = index[e]
            for j in range(x.shape[1]):
                value = x[source, j] * weight[e] if len(weight) else x[source, j]
                if e == first or sign * value > sign * out[row, j]:
                    out[row, j] = value
                    winner[row, j] = e


@njit(cache=True, nogil=True)
def weighted_max_backward(start, stop, t_ptr, t_row, t_entry, weight, winner, grad, out):  # type: ignore[no-untyped-def]
    """out[c] = Σ of weight · grad[row] over the entries of column c that won their row."""
    for col in range(start, stop):
        for j in range(grad.shape[1]):
            out[col, j] = 0
        for t in range(t_ptr[col], t_ptr[col + 1]):
            row, e = t_row[t], t_entry[t]
            for j in range(grad.shape[1]):
                if winner[row, j] == e:
                    out[col, j] += grad[row, j] * weight[e] if len(weight) else grad[row, j]


_WORD = np.uint64(0xFFFFFFFF)


@njit(inline="always")
def _mix(x):  # type: ignore[no-untyped-def]
    """The 32-bit finaliser "lowbias32" (Wellons 2018), on words held in uint64."""
    x ^= x >> np.uint64(16)
    x = x * np.uint64(0x7FEB352D) & _WORD
    x ^= x >> np.uint64(15)
    x = x * np.uint64(0x846CA68B) & _WORD
    return x ^ (x >> np.uint64(16))


@njit(inline="always")
def _kept(row, column, high, threshold):  # type: ignore[no-untyped-def]
    return _mix((row + np.uint64(column) * np.uint64(0x9E3779B9) & _WORD) ^ high) >= threshold


@njit(cache=True, nogil=True)
def fill_mask(start, stop, low, high, rows, threshold, scale, out):  # type: ignore[no-untyped-def]
    """out[i, j] = scale where the hash of (key, rows[i], j) reaches the threshold, else 0."""
    for i in range(start, stop):
        row = _mix((np.uint64(rows[i]) & _WORD) ^ low)
        for j in range(out.shape[1]):
            out[i, j] = scale if _kept(row, j, high, threshold) else 0


@njit(cache=True, nogil=True)
def mask_entries(start, stop, low, high, ptr, col, rows, threshold, scale, weight, out):  # type: ignore[no-untyped-def]
    """out[e] = weight · scale where the hash of (key, rows[r], col[e]) reaches the threshold, else 0; by rows r.

    Empty arrays stand for rows that are named by their number, and for weights that are all one.
    """
    for r in range(start, stop):
        row = _mix((np.uint64(rows[r] if len(rows) else r) & _WORD) ^ low)
        for e in range(ptr[r], ptr[r + 1]):
            value = weight[e] * scale if len(weight) else scale
            out[e] = value if _kept(row, col[e], high, threshold) else 0


@njit(cache=True, nogil=True)
def sum_trees(start, stop, columns, feature, threshold, left, right, value, output, out):  # type: ignore[no-untyped-def]
    """out[row, output[t]] += the value of the leaf of tree t that the row falls into.

    A node of a tree is a leaf where `left` is 0; else a row goes left where its column is at most the threshold.
    """
    for row in range(start, stop):
        for tree in range(len(output)):
            node = 0
            while left[tree, node] != 0:
                goes_left = columns[row, feature[tree, node]] <= threshold[tree, node]
                node = left[tree, node] if goes_left else right[tree, node]
            out[row, output[tree]] += value[tree, node]


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
