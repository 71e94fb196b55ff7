"""Large tensors on large pages, and a pool that uses their memory again.

Touching fresh memory in small pages costs more than the arithmetic done on it. A training step allocates the same large
tensors each time: were they freed and allocated anew, the system would clear all their pages each time.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

PAGE = 1 << 21  # bytes of a large page
SPARE = 8  # memory serves a tensor that it is longer than by at most one part in so many, or by a page
LARGE, FREE = (getattr(mmap, name, None) for name in ("MADV_HUGEPAGE", "MADV_FREE"))  # Linux only
LARGE_BYTES = 1 << 23  # four pages of 2 MiB: below that nothing is gained
_MOVE = 25  # MADV_COLLAPSE, of Linux 6.1; an older one refuses it
_TRIM, _MAPPED_FROM, _MOST_MAPPED = -1, -3, -4  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX of malloc.h
_KEEP = {_MOST_MAPPED: 0, _TRIM: -1}
_RETURN = {_MOST_MAPPED: 1 << 16, _MAPPED_FROM: 1 << 25, _TRIM: 1 << 26}  # what glibc comes to by itself
_kept = False  # whether what is freed is kept now
_moved = WeakIdKeyDictionary()  # tensors that were moved, as far as the system could


def empty_large(num_rows: int, width: int, *, dtype: torch.dtype) -> Tensor:
    """An uninitialised CPU tensor, `[num_rows, width]`; a large one lies on large pages where the system has them."""
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
    """Return memory that the pool holds for later tensors to the system."""
    _pool(os.getpid()).release()


def return_freed() -> None:
    """Return all memory that is free to the system, so that what the process holds is what it needs: a few ms."""
    release_pages()
    trim_heap()


def trim_heap() -> None:
    """Return memory that the C library holds for later allocations to the system, where it can."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


@contextmanager
def freed_memory_kept(keep: bool = True) -> Iterator[None]:
    """Inside it the C library keeps what is freed for later tensors, where it can; afterwards it does as before.

    A tensor of more than 32 MB is else mapped anew each time, and the system clears its pages. What is kept may be
    scattered, so that the process holds more than it needs: for trainings that leave much memory free. All that is
    free is returned by :func:`return_freed`.

    Args:
        keep: False changes nothing.
    """
    global _kept
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if not keep or _kept or set_option is None:
        yield
        return
    _kept = True
    try:
        for option, value in _KEEP.items():
            set_option(option, value)
        yield
    finally:
        _kept = False
        for option, value in _RETURN.items():
            set_option(option, value)


def move_to_large(tensor: Tensor) -> None:
    """Move what a contiguous CPU tensor holds to large pages, in place, where the system can.

    That costs at least as much as a pass over it, and is tried once: for tensors that many passes read.
    """
    if LARGE is not None and tensor not in _moved:
        _moved[tensor] = True
        _advise(tensor, _MOVE)


def advise_large(tensor: Tensor) -> None:
    """Have the pages of a CPU tensor be large ones when they are first written, where the system has them."""
    if LARGE is not None:
        _advise(tensor, LARGE)


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


class Pool:
    """Memory on large pages, allocated to tensors and reused when the last tensor in it is gone.

    It never holds more than was allocated at one time. What is idle is marked as free: where memory is short the
    system reclaims it, and maps fresh pages when it is used again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Memory] = []  # the longest idle first
        self._returned: deque[_Memory] = deque()  # by any thread at any time, also by one that holds the lock
        self._allocated = self._most = 0  # bytes now, and the most at one time

    def empty(self, num_bytes: int) -> Tensor:
        """An uninitialised tensor of bytes, `[num_bytes]`."""
        with self._lock:
            self._collect()
            memory = self._find(num_bytes)
            self._allocated += memory.num_bytes
            self._most = max(self._most, self._allocated)
            self._drop_to(self._most - self._allocated)
        used = memory.bytes[:num_bytes]
        weakref.finalize(used, self._return, memory).atexit = False
        return torch.from_numpy(used)

    @property
    def idle_bytes(self) -> int:
        """Bytes that are held for later tensors."""
        with self._lock:
            self._collect()
            return sum(memory.num_bytes for memory in self._idle)

    def release(self) -> None:
        """Free what is idle."""
        with self._lock:
            self._collect()
            self._idle.clear()
            self._most = self._allocated

    def _return(self, memory: _Memory) -> None:
        memory.advise(FREE)
        self._returned.append(memory)

    def _collect(self) -> None:
        while self._returned:
            memory = self._returned.popleft()
            self._allocated -= memory.num_bytes
            self._idle.append(memory)

    def _find(self, num_bytes: int) -> _Memory:
        """The shortest idle memory that serves, or fresh memory."""
        serving = [each for each in self._idle if 0 <= each.num_bytes - num_bytes <= max(PAGE, num_bytes // SPARE)]
        if not serving:
            return self._map(num_bytes)
        memory = min(serving, key=lambda each: each.num_bytes)
        self._idle.remove(memory)
        return memory

    def _map(self, num_bytes: int) -> _Memory:
        """Fresh memory; where the process may map no more, in the place of what is idle."""
        try:
            return _Memory(num_bytes)
        except OSError:
            self._idle.clear()
        try:
            return _Memory(num_bytes)
        except OSError as error:
            raise MemoryError(f"A tensor of {num_bytes} bytes does not fit in memory.") from error

    def _drop_to(self, num_bytes: int) -> None:
        while sum(memory.num_bytes for memory in self._idle) > num_bytes:
            del self._idle[0]


class _Memory:
    """Private memory that starts at a large page and consists of whole ones."""

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = -(-num_bytes // PAGE) * PAGE
        self.map = mmap.mmap(-1, self.num_bytes + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = np.frombuffer(self.map, np.uint8)
        self.start = -whole.ctypes.data % PAGE
        self.bytes = whole[self.start : self.start + self.num_bytes]
        self.advise(LARGE)

    def advise(self, advice: int | None) -> None:
        """Advise the system on it; nothing hangs on whether it listens."""
        with suppress(OSError):
            if advice is not None:
                self.map.madvise(advice, self.start, self.num_bytes)
