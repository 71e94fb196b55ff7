"""Large tensors on large pages: touching fresh memory in small pages costs more than the arithmetic done on it."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from gpnn.kernels.pool import LARGE, Pool

LARGE_BYTES = 1 << 23  # four pages of 2 MiB: below that nothing is gained
_MOVE = 25  # MADV_COLLAPSE, of Linux 6.1; an older one refuses it
_moved = WeakIdKeyDictionary()  # tensors that were moved, as far as the system could


def empty_large(num_rows: int, width: int, *, dtype: torch.dtype) -> Tensor:
    """An uninitialised CPU tensor, `[num_rows, width]`; a large one lies on large pages where the system lends them."""
    num_bytes = num_rows * width * dtype.itemsize
    if num_bytes < LARGE_BYTES or LARGE is None:
        return torch.empty(num_rows, width, dtype=dtype)
    return _pool(os.getpid()).empty(num_bytes).view(dtype).view(num_rows, width)


def empty_like(tensor: Tensor) -> Tensor:
    """An uninitialised contiguous tensor like `tensor`, `[n, d]`; on a CPU that of :func:`empty_large`."""
    if tensor.device.type == "cpu":
        return empty_large(*tensor.shape, dtype=tensor.dtype)
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def release_pages() -> None:
    """Give memory that is held for large tensors to come back to the system."""
    _pool(os.getpid()).release()


def move_to_large(tensor: Tensor) -> None:
    """Move what a contiguous CPU tensor holds to large pages, in place, where the system can.

    That costs at least as much as a pass over it, and is tried once: for tensors that many passes read.
    """
    if LARGE is not None and tensor not in _moved:
        _moved[tensor] = True
        _advise(tensor, _MOVE)


def _advise(tensor: Tensor, advice: int) -> None:
    """Advise the system on the whole pages of a tensor; nothing hangs on whether it listens."""
    num_bytes = tensor.numel() * tensor.element_size()
    if num_bytes >= LARGE_BYTES and _libc() is not None:
        start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        length = (tensor.data_ptr() + num_bytes - start) // mmap.PAGESIZE * mmap.PAGESIZE
        _libc().madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), advice)


@lru_cache(maxsize=1)
def _pool(process: int) -> Pool:
    """This process's own: one that was forked may have its parent's at a time when another thread changes it."""
    return Pool()


@cache
def _libc() -> Any:
    try:
        return ctypes.CDLL(None).madvise and ctypes.CDLL(None)
    except (OSError, AttributeError):
        return None
