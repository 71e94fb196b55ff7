"""Large `.npy` files: rows appended to one, slices read from one, without mapping it into memory."""

from __future__ import annotations

import math
import mmap
import os
import sys
from pathlib import Path
from tokenize import TokenError
from types import TracebackType
from typing import IO, Any, NamedTuple

import numpy as np

from gpnn.storage.read import undamaged

HEADER = 128  # bytes, so that the values begin at a multiple of 64
KINDS = "biuf"
NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)  # Python 3.11 has no name for it

TRIES = 10  # numpy parses by `ast`, where threads may fail each other before Python 3.11.8 (gh-106905)


class NpyHeader(NamedTuple):
    """What a `.npy` file says of its values."""

    dtype: np.dtype
    shape: tuple[int, ...]
    start: int  # byte at which the values begin

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))


def read_header(path: Path) -> NpyHeader:
    """The type, shape and place of an array of numbers in C order, of the length that the file has.

    Raises:
        ValueError: when the file holds anything else.
    """
    errors = (ValueError, KeyError, OSError, SyntaxError, TypeError, EOFError, TokenError)
    with path.open("rb") as file:
        with undamaged(path.name, "be an array as numpy saves it", errors):
            shape, by_columns, dtype = parse_header(file)
        start = file.tell()
    if dtype.kind not in KINDS or (by_columns and len(shape) > 1):
        order = " in Fortran order" if by_columns else ""
        raise ValueError(f"{path.name} must hold numbers in C order. Got {dtype}{order}.")
    size = start + dtype.itemsize * math.prod(shape)
    if path.stat().st_size != size:
        raise ValueError(f"{path.name} must have the {size:,} bytes of its header. Got {path.stat().st_size:,}.")
    return NpyHeader(dtype, tuple(shape), start)


def parse_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether in Fortran order, and type of an array, from the begin of numpy's file; its values come next."""
    version = np.lib.format.read_magic(file)
    readers: dict[Any, Any] = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"numpy's format {version}")
    start = file.tell()
    for _ in range(TRIES - 1):
        try:
            return readers[version](file)
        except SystemError:
            file.seek(start)
    return readers[version](file)


def read_rows(path: Path, header: NpyHeader, first: int, last: int) -> np.ndarray:
    """The rows from `first` to `last`, in native byte order, in memory of their own."""
    count = (last - first) * header.row_bytes // header.dtype.itemsize
    values = np.fromfile(path, header.dtype, count, offset=header.start + first * header.row_bytes)
    native = values.astype(header.dtype.newbyteorder("="), copy=False)
    return native.reshape(last - first, *header.shape[1:])


def map_array(path: Path) -> np.ndarray:
    """The array of a file, mapped: pages are read as they are used, and a page that is written to becomes a copy.

    No memory is reserved for such copies, so that the file may be larger than the machine's memory.
    """
    header = read_header(path)
    if 0 in header.shape:
        return np.empty(header.shape, header.dtype)  # there is nothing to map
    with path.open("rb") as file:
        if NORESERVE:
            flags, protection = mmap.MAP_PRIVATE | NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
            content = mmap.mmap(file.fileno(), 0, flags=flags, prot=protection)
        else:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return np.frombuffer(content, header.dtype, offset=header.start).reshape(header.shape)


class NpyWriter:
    """Appends rows to a `.npy` file; leaving it without an error writes its header and flushes it to the disk.

    Args:
        path: the file.
        dtype: of the values, written in little-endian order.
        row_shape: shape of one row.
        kept: rows of an unfinished file to continue after, or None: a new file.
    """

    def __init__(
        self, path: Path, dtype: np.typing.DTypeLike, row_shape: tuple[int, ...] = (), kept: int | None = None
    ):
        self.path, self.dtype, self.row_shape = path, np.dtype(dtype).newbyteorder("<"), row_shape
        self.num_rows = kept or 0
        self.file: IO[bytes] = path.open("r+b" if kept else "wb")
        row_bytes = self.dtype.itemsize * int(np.prod(row_shape, dtype=np.int64))
        try:
            self.file.truncate(HEADER + self.num_rows * row_bytes)
            self.file.seek(0, os.SEEK_END)
        except BaseException:
            self.file.close()
            raise

    def append(self, rows: np.ndarray) -> None:
        """Write further rows, `[n, …]`."""
        assert rows.shape[1:] == self.row_shape, (rows.shape, self.row_shape)
        self.file.write(np.ascontiguousarray(rows, self.dtype).data)
        self.num_rows += len(rows)

    def flush(self) -> None:
        """Put what was written on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        with self.file:  # closes it, whatever fails
            if kind is None:
                self.file.seek(0)
                self.file.write(_header(self.dtype, (self.num_rows, *self.row_shape)))
                self.flush()


def write_array(path: Path, values: np.ndarray) -> None:
    """Write a whole array as :class:`NpyWriter` does."""
    with NpyWriter(path, values.dtype, values.shape[1:]) as file:
        file.append(values)


def _header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    text = repr({"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    padded = text.ljust(HEADER - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + padded.encode("latin1")
