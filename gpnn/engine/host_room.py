"""Rows in pinned host memory, in pieces, moved to and from a GPU on a stream of their own."""

from __future__ import annotations

import os
import weakref
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

PIECE_ROWS = 1 << 20


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
    """A kept state in host memory: written behind the computation's back, fetched ahead of its use.

    Args:
        room: where it is kept; used again by the next state.
        stream: the stream that copies, or None on a CPU.
    """

    def __init__(self, room: HostRows, stream: torch.cuda.Stream | None) -> None:
        self.room, self.stream = room, stream
        self._ahead: Tensor | None = None

    def keep(self, state: Tensor) -> None:
        """Keep a copy of `state`, which may then be overwritten."""
        copy = state.clone()
        with copying(self.stream):
            self.room.write(copy)
        lend(copy, self.stream)

    def fetch(self, like: Tensor) -> None:
        """Start bringing the state back to the device of `like`."""
        self._ahead = torch.empty_like(like)
        with copying(self.stream):
            self.room.read(self._ahead)

    def load(self, into: Tensor) -> None:
        if self._ahead is None:
            self.fetch(into)
        assert self._ahead is not None
        wait(self.stream)
        into.copy_(self._ahead)

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


def lend(tensor: Tensor, stream: torch.cuda.Stream | None) -> None:
    """Keep a tensor's memory from being used again before the copying stream is done with it."""
    if stream is not None:
        tensor.record_stream(stream)
