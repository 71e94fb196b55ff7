"""States saved at round boundaries for the backward pass: in memory, in bf16, on disk, or in pinned host memory."""

from __future__ import annotations

import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from gpnn.storage.tensors import map_tensor

PIECE_ROWS = 1 << 20


class SavedState(Protocol):
    """A state that the backward pass loads again."""

    def load(self, into: Tensor) -> None:
        """Copy the state into `into`, `[N, s]`."""

    def peek(self) -> Tensor | None:
        """The state itself, to be read and not written, where it is at hand; None: it must be loaded."""

    def drop(self) -> None:
        """Free it: it will not be loaded again."""


class FetchableState(SavedState, Protocol):
    """A saved state that is elsewhere and can be prefetched."""

    def fetch(self, like: Tensor) -> None:
        """Start copying what `load` needs to the device of `like`."""


class StateStorage(FetchableState, Protocol):
    """A place for the state at the start of a round: on the device (`DeviceState`) or on the host (`HostState`)."""

    def save(self, state: Tensor) -> None:
        """Save a copy of `state`, `[N, s]`."""


class Boundary:
    """A stored state.

    Args:
        state: the state to save, `[N, s]`.
        dtype: the type to store it in, or None: its own.
        device: where to store it, or None: where it is.
        folder: a folder for a memory-mapped file that holds it, or None: memory.
        copy: whether `state` will be overwritten, so that even an unchanged form must be copied.
    """

    def __init__(
        self,
        state: Tensor,
        dtype: torch.dtype | None,
        device: str | None,
        folder: Path | str | None,
        *,
        copy: bool,
    ) -> None:
        stored = state.to(device=device or state.device, dtype=dtype or state.dtype, copy=copy)
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            stored = map_tensor(stored, folder)
        self._stored, self._unchanged = stored, dtype is None and device is None and folder is None

    def load(self, into: Tensor) -> None:
        """Copy the state into `into`, `[N, s]`."""
        into.copy_(self._stored)

    def peek(self) -> Tensor | None:
        """The state itself, where it is stored as it was."""
        return self._stored if self._unchanged else None

    def drop(self) -> None:
        """Nothing: a second backward pass may come."""


class DeviceState:
    """A saved state on the computation's own device, freed after its last use.

    Args:
        dtype: the type that it is stored in, or None: its own.
    """

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        self.dtype = dtype
        self._stored: Tensor | None = None

    def save(self, state: Tensor) -> None:
        self._stored = state.to(self.dtype or state.dtype, copy=True)

    def fetch(self, like: Tensor) -> None:
        """Nothing: it is here."""

    def load(self, into: Tensor) -> None:
        assert self._stored is not None
        into.copy_(self._stored)

    def peek(self) -> Tensor | None:
        """None: its memory is freed early."""
        return None

    def drop(self) -> None:
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
        buffer: where it is stored; used again by the next state.
        stream: the stream that copies, or None on a CPU.
    """

    def __init__(self, buffer: HostRows, stream: torch.cuda.Stream | None) -> None:
        self.buffer, self.stream = buffer, stream
        self._ahead: Tensor | None = None

    def save(self, state: Tensor) -> None:
        """Save a copy of `state`, which may then be overwritten."""
        copy = state.clone()
        with copying(self.stream):
            self.buffer.write(copy)
        record_stream(copy, self.stream)

    def fetch(self, like: Tensor) -> None:
        """Start copying the state back to the device of `like`."""
        self._ahead = torch.empty_like(like)
        with copying(self.stream):
            self.buffer.read(self._ahead)

    def load(self, into: Tensor) -> None:
        if self._ahead is None:
            self.fetch(into)
        assert self._ahead is not None
        wait(self.stream)
        into.copy_(self._ahead)

    def peek(self) -> Tensor | None:
        """None: its memory is freed early."""
        return None

    def drop(self) -> None:
        self._ahead = None


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
