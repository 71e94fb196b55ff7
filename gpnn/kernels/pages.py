"""Large tensors on large pages: touching fresh memory in small pages costs more than the arithmetic done on it."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

import torch
from torch import Tensor

LARGE_BYTES = 1 << 23  # four pages of 2 MiB: below that nothing is gained
_ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux only


def empty_large(num_rows: int, width: int, *, dtype: torch.dtype) -> Tensor:
    """An uninitialised CPU tensor, `[num_rows, width]`, on large pages where the system lends them."""
    tensor = torch.empty(num_rows, width, dtype=dtype)
    num_bytes = tensor.numel() * tensor.element_size()
    if num_bytes >= LARGE_BYTES and _ADVICE is not None and _libc() is not None:
        start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE  # only whole pages can be advised
        length = (tensor.data_ptr() + num_bytes - start) // mmap.PAGESIZE * mmap.PAGESIZE
        _libc().madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _ADVICE)  # advice: nothing hangs on it
    return tensor


@cache
def _libc() -> Any:
    try:
        return ctypes.CDLL(None).madvise and ctypes.CDLL(None)
    except (OSError, AttributeError):
        return None
