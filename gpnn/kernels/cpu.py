"""The CPU kernels, compiled once and cached on disk: one thread a row, no atomics, no [E, d] temporary."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import config, njit, prange, set_num_threads
from torch import Tensor

PARALLEL_ABOVE = 1 << 17  # multiplications; waking a second thread for fewer costs more than it saves


def launch(kernel: Callable[..., None], work: int, *arguments: Any) -> None:
    """Call a kernel on tensors and numbers, on as many threads as torch uses, or one where there is little to do."""
    arrays = [value.numpy() if isinstance(value, Tensor) else value for value in arguments]
    threads = torch.get_num_threads()
    set_num_threads(min(threads, config.NUMBA_NUM_THREADS) if work >= PARALLEL_ABOVE else 1)
    kernel(*arrays)
    if torch.get_num_threads() != threads:  # numba's pool, when it starts, sets OpenMP's count, which is torch's too
        torch.set_num_threads(threads)


@njit(cache=True, parallel=True)
def weighted_sum(ptr, index, entry, weight, x, out):  # type: ignore[no-untyped-def]
    """out[r] = Σ of weight · x[index] over the entries of row r.

    `entry` names the weight of each entry; empty arrays stand for "the entry itself" and for "all one".
    """
    for row in prange(len(ptr) - 1):
        for j in range(x.shape[1]):
            out[row, j] = 0
        for e in range(ptr[row], ptr[row + 1]):
            source = index[e]
            if len(weight):
                w = weight[entry[e]] if len(entry) else weight[e]
                for j in range(x.shape[1]):
                    out[row, j] += w * x[source, j]
            else:
                for j in range(x.shape[1]):
                    out[row, j] += x[source, j]


@njit(cache=True, parallel=True)
def weighted_max(ptr, index, weight, sign, x, out, winner):  # type: ignore[no-untyped-def]
    """out[r] = the largest (sign 1) or smallest (sign −1) of weight · x[index] over the row; `winner` is its entry.

    The first of equal entries wins. A row without entries keeps what `out` holds and has winner −1.
    """
    for row in prange(len(ptr) - 1):
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


@njit(cache=True, parallel=True)
def weighted_max_backward(t_ptr, t_row, t_entry, weight, winner, grad, out):  # type: ignore[no-untyped-def]
    """out[c] = Σ of weight · grad[row] over the entries of column c that won their row."""
    for col in prange(len(t_ptr) - 1):
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


@njit(cache=True, parallel=True)
def fill_mask(low, high, rows, threshold, scale, out):  # type: ignore[no-untyped-def]
    """out[i, j] = scale where the hash of (key, rows[i], j) reaches the threshold, else 0."""
    for i in prange(out.shape[0]):
        row = _mix((np.uint64(rows[i]) & _WORD) ^ low)
        for j in range(out.shape[1]):
            value = _mix((row + np.uint64(j) * np.uint64(0x9E3779B9) & _WORD) ^ high)
            out[i, j] = scale if value >= threshold else 0
