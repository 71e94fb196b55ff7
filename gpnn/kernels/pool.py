"""Pool: the memory of large tensors is used again, since touching fresh pages can cost more than the work done on them.

A training step asks for the same large tensors each time. Were they given back to the system and asked for anew, all
their pages would be cleared each time.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections import deque
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

PAGE = 1 << 21  # bytes of a large page
SPARE = 8  # memory serves a tensor that it is longer than by at most one part in so many, or by a page

LARGE, FREE = (getattr(mmap, name, None) for name in ("MADV_HUGEPAGE", "MADV_FREE"))  # Linux only


class Pool:
    """Memory on large pages, lent to tensors and taken back when the last tensor in it is gone.

    It never holds more than was lent at one time. What is idle is marked as free: where memory is short the system
    takes it away, and brings fresh pages when it is used again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Memory] = []  # the longest idle first
        self._returned: deque[_Memory] = deque()  # by any thread at any time, also by one that holds the lock
        self._lent = self._most = 0  # bytes now, and the most at one time

    def empty(self, num_bytes: int) -> Tensor:
        """An uninitialised tensor of bytes, `[num_bytes]`."""
        with self._lock:
            self._take_back()
            memory = self._find(num_bytes)
            self._lent += memory.num_bytes
            self._most = max(self._most, self._lent)
            self._drop_to(self._most - self._lent)
        lent = memory.bytes[:num_bytes]
        weakref.finalize(lent, self._return, memory).atexit = False
        return torch.from_numpy(lent)

    @property
    def idle_bytes(self) -> int:
        """Bytes that are held for tensors to come."""
        with self._lock:
            self._take_back()
            return sum(memory.num_bytes for memory in self._idle)

    def release(self) -> None:
        """Give what is idle back to the system."""
        with self._lock:
            self._take_back()
            self._idle.clear()
            self._most = self._lent

    def _return(self, memory: _Memory) -> None:
        memory.advise(FREE)
        self._returned.append(memory)

    def _take_back(self) -> None:
        while self._returned:
            memory = self._returned.popleft()
            self._lent -= memory.num_bytes
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
