"""Arrays in numpy's own files, read without unpickling and without trusting the sizes they declare."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from gpnn.data.tables.limits import check_size

KINDS = "biufSU"  # booleans, whole numbers, numbers, bytes, text: nothing that must be unpickled
# what zipfile and numpy raise on damaged bytes
DAMAGES = (
    ValueError, OSError, KeyError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError,
    OverflowError, SyntaxError, TypeError, IndexError, MemoryError, UnicodeError, tokenize.TokenError,
)  # fmt: skip


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name.

    Raises:
        ValueError: when it is no archive of arrays of numbers or text, or its content is too large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_size(path.name, sum(member.file_size for member in members))
            return {_name(member): _read_member(archive, member) for member in members}
    except FileNotFoundError:
        raise
    except DAMAGES as error:
        raise ValueError(_damaged(path, "arrays", error)) from None


def read_array(path: Path) -> np.ndarray:
    """The array of an `.npy` file.

    Raises:
        ValueError: when it holds no array of numbers or text.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            check_size(path.name, size)
            return _read(file, size)
    except FileNotFoundError:
        raise
    except DAMAGES as error:
        raise ValueError(_damaged(path, "an array", error)) from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    if not member.filename.endswith(".npy"):
        raise ValueError(f"a member {member.filename[:80]!r}")
    with archive.open(member) as file:
        return _read(file, member.file_size)


def _read(file: IO[bytes], size: int) -> np.ndarray:
    """The array of a stream of `size` bytes, whose header must announce just these bytes."""
    version = np.lib.format.read_magic(file)
    readers: dict[Any, Any] = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"numpy's format {version}")
    shape, by_columns, dtype = readers[version](file)
    if dtype.kind not in KINDS or dtype.hasobject:
        raise ValueError(f"an array of type {dtype}")
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != size - file.tell():
        raise ValueError(f"an array of shape {list(shape)} and type {dtype} in {size} bytes")
    content = file.read(size)
    values = np.frombuffer(content, dtype) if dtype.itemsize else np.zeros(math.prod(shape), dtype)
    return values.reshape(shape, order="F" if by_columns else "C")


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _damaged(path: Path, expected: str, error: BaseException) -> str:
    reason = str(error).strip().rstrip(".") or type(error).__name__
    if reason.startswith(path.name):  # a sentence of ours already
        return f"{reason}."
    return f"{path.name} must hold {expected} of numbers or text. Got: {reason.splitlines()[0][:200]}."
