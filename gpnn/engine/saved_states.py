"""States saved for the backward pass, in memory, bf16, files or pinned host memory; sources of the initial ones."""

from __future__ import annotations

import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from gpnn.engine.rows import Rows, read_rows
from gpnn.pages import empty_like
from gpnn.storage.tensors import map_tensor

PIECE_ROWS = 1 << 20


class SavedState(Protocol):
    """A state that the backward pass loads again."""

    def release(self) -> None:
        """Free a copy of what is stored elsewhere: it will not be read before `fetch`."""

    def fetch(self) -> None:
        """Start copying what is elsewhere to the device that computes."""

    def load(self, into: Tensor) -> None:
        """Copy the state into `into`, `[N, s]`."""

    def peek(self) -> Tensor | Rows | None:
        """The state itself, to be read and not written, where it is at hand; None: it must be loaded."""

    def drop(self) -> None:
        """Free it: it will not be loaded again."""


class Boundary:
    """A stored state.

    Args:
        state: the state to save, `[N, s]`.
        dtype: the type to store it in, or None: its own.
        device: where to store it, or None: where it is.
        folder: a folder for a memory-mapped file that holds it, or None: memory.
        copy: whether `state` will be overwritten, so that even an unchanged form must be copied.
        once: whether one backward pass uses it, and may free it.
    """

    def __init__(
        self,
        state: Tensor,
        dtype: torch.dtype | None,
        device: str | None,
        folder: Path | str | None,
        *,
        copy: bool,
        once: bool = False,
    ) -> None:
        copy = copy and folder is None  # a file is a copy
        stored = state.to(device=device or state.device, dtype=dtype or state.dtype, copy=copy)
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            stored = map_tensor(stored, folder)
        self._stored: Tensor | None = stored
        self._unchanged, self._once = dtype is None and device is None and folder is None, once

    def release(self) -> None:
        """Nothing: it has no copy."""

    def fetch(self) -> None:
        """Nothing: it is read where it is."""

    def load(self, into: Tensor) -> None:
        """Copy the state into `into`, `[N, s]`."""
        assert self._stored is not None
        into.copy_(self._stored)

    def peek(self) -> Tensor | None:
        """The state itself, where it is stored as it was."""
        return self._stored if self._unchanged else None

    def drop(self) -> None:
        """Free it, unless a second backward pass may come."""
        if self._once:
            self._stored = None


class HostRows:
    """A matrix `[N, F]` in host memory, in pieces of PIECE_ROWS rows; page-locked where there is a GPU to copy to.

    Args:
        num_rows: N.
        width: F.
        dtype: its type.
    """

    def __init__(self, num_rows: int, width: int, dtype: torch.dtype) -> None:
        self.shape, self.dtype = (num_rows, width), dtype
        sizes = [min(PIECE_ROWS, num_rows - start) for start in range(0, num_rows, PIECE_ROWS)]
        with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:  # fresh pages come slowly to one thread
            self.pieces = list(pool.map(lambda rows: _locked(rows, width, dtype), sizes))

    def rows(self, number: int) -> slice:
        """The rows of the piece of that number."""
        start = number * PIECE_ROWS
        return slice(start, start + len(self.pieces[number]))

    def read(self, into: Tensor) -> None:
        """Start copying all rows into `into`, `[N, F]`, on the current stream."""
        for number, piece in enumerate(self.pieces):
            into[self.rows(number)].copy_(piece, non_blocking=True)

    def write(self, source: Tensor) -> None:
        """Start copying all rows from `source`, `[N, F]`, on the current stream."""
        for number, piece in enumerate(self.pieces):
            piece.copy_(source[self.rows(number)], non_blocking=True)


def _locked(rows: int, width: int, dtype: torch.dtype) -> Tensor:
    """Zeros, `[rows, width]`, that a GPU can copy from while the CPU does other things."""
    piece = torch.zeros(rows, width, dtype=dtype)
    if torch.cuda.is_available():
        runtime, address = torch.cuda.cudart(), piece.data_ptr()
        torch.cuda.check_error(int(runtime.cudaHostRegister(address, piece.numel() * piece.element_size(), 0)))
        weakref.finalize(piece, runtime.cudaHostUnregister, address)
    return piece


class HostState:
    """A saved state in host memory: written asynchronously, fetched before its use.

    Args:
        state: what is saved, `[N, s]`; it may then be overwritten.
    """

    def __init__(self, state: Tensor) -> None:
        self.device, self.stream = state.device, copy_stream(state.device)
        self.buffer: HostRows | None = _spare(state)
        self._here: Tensor | None = state.clone()
        self._coming = False
        with copying(self.stream):
            self.buffer.write(self._here)
        record_stream(self._here, self.stream)

    def release(self) -> None:
        """Free the copy on the device: it will not be read before `fetch`."""
        self._here = None

    def fetch(self) -> None:
        """Start copying the state back to its device."""
        assert self.buffer is not None
        self._here, self._coming = torch.empty(self.buffer.shape, dtype=self.buffer.dtype, device=self.device), True
        with copying(self.stream):
            self.buffer.read(self._here)

    def load(self, into: Tensor) -> None:
        into.copy_(self.peek())

    def peek(self) -> Tensor:
        """The state, on the device that it came from."""
        if self._here is None:
            self.fetch()
        if self._coming:
            wait(self.stream)
        assert self._here is not None
        return self._here

    def drop(self) -> None:
        """Free its memory on the device; that on the host is used by the next state."""
        self._here = None
        if self.buffer is not None:
            _idle.append(self.buffer)
        self.buffer = None


_idle: list[HostRows] = []  # page-locked memory takes seconds to make


def _spare(like: Tensor) -> HostRows:
    """Host memory for a matrix of this shape and type."""
    for number, rows in enumerate(_idle):
        if rows.shape == tuple(like.shape) and rows.dtype == like.dtype:
            return _idle.pop(number)
    return HostRows(like.shape[0], like.shape[1], like.dtype)


def release_host_rows() -> None:
    """Return the host memory that saved states leave for later ones to the system."""
    _idle.clear()


@cache
def copy_stream(device: torch.device) -> torch.cuda.Stream | None:
    """The stream that copies between the host and a device; None on a CPU."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None


class copying(torch.cuda.StreamContext):
    """Work on the copying stream, after all that the computation has been given so far."""

    def __init__(self, stream: torch.cuda.Stream | None) -> None:
        super().__init__(stream)
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream())


def wait(stream: torch.cuda.Stream | None) -> None:
    """Let the computation wait for the copies that were started."""
    if stream is not None:
        torch.cuda.current_stream().wait_stream(stream)


def record_stream(tensor: Tensor, stream: torch.cuda.Stream | None) -> None:
    """Keep a tensor's memory from being used again before the copying stream is done with it."""
    if stream is not None:
        tensor.record_stream(stream)


class Source(SavedState, Protocol):
    """The states before the first round, in plan order, `[N + V, s]`.

    A source that computes its states from something smaller, or from what lies elsewhere, need not keep them: the
    backward pass asks for them again. It serves as the saved state of the first round.
    """

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that gradients flow to."""

    @property
    def kept(self) -> bool:
        """Whether the states themselves are what the caller gave, and keeps."""

    @property
    def by_rows(self) -> bool:
        """Whether :meth:`make` can be called: single rows are at hand, and nothing is kept of them."""

    def make(self, rows: Tensor | slice) -> Tensor:
        """The states of some rows, `[m, s]`, as a function of `tensors` where gradients are enabled."""

    def read(self, rows: Tensor | slice) -> Tensor:
        """The same without gradients, in little more memory than they take."""

    def new_state(self) -> Tensor:
        """An uninitialised state, `[N + V, s]`, on the device that computes."""

    def gradients(self, grad: Tensor) -> list[Tensor | None]:
        """The gradients of `tensors`, given that of the states, `[N + V, s]`."""


class GivenState:
    """A state that the caller holds.

    Args:
        state: `[N + V, s]`.
    """

    kept, by_rows = True, False

    def __init__(self, state: Tensor) -> None:
        self.state = state
        self._like = state.detach()[:1]
        self._num_rows = len(state)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.state,)

    def new_state(self) -> Tensor:
        return empty_like(self._like.expand(self._num_rows, -1))

    def release(self) -> None:
        """Hold it no longer: it is stored elsewhere."""
        self.state, self._like = self.state.detach()[:0], self._like.clone()

    def fetch(self) -> None:
        """Nothing: it is here."""

    def load(self, into: Tensor) -> None:
        into.copy_(self.state)

    def read(self, rows: Tensor | slice) -> Tensor:
        return read_rows(self.state, rows)

    def make(self, rows: Tensor | slice) -> Tensor:
        return self.read(rows)

    def peek(self) -> Tensor:
        return self.state

    def drop(self) -> None:
        """Nothing: it is the caller's."""

    def gradients(self, grad: Tensor) -> list[Tensor | None]:
        return [grad]
