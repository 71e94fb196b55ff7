"""Planetoid's pickles: dictionaries of lists, arrays of numbers and CSR matrices, read by an interpreter of our own.

While a file is read, an array or a matrix is only a note of its content; it is made once, at the end, after its sizes
and indices are checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from gpnn.data.pickle_machine import DAMAGES, Name, default_dictionary, interpret, refuse_call

MAX_BYTES = 1 << 28  # the largest file of the Planetoid family has 7.6 MB
_NUMBERS = re.compile(r"[<>|=]?[biuf][1248]")


def read_pickle(path: str | Path, max_bytes: int = MAX_BYTES) -> Any:
    """The dictionary, array or sparse matrix that a Planetoid pickle holds.

    Args:
        path: the file; Python 2's protocol 2 up to today's protocol 5.
        max_bytes: the largest file that is read.

    Raises:
        ValueError: when the file holds anything but numbers, lists, dictionaries, numpy arrays of numbers and
            scipy CSR matrices.
    """
    path = Path(path)
    size = path.stat().st_size
    if size > max_bytes:
        raise ValueError(f"{path.name} must have at most {max_bytes} bytes. Got {size}.")
    try:
        return read_pickle_bytes(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path.name} was refused: {error}") from None


def read_pickle_bytes(content: bytes) -> Any:
    """The same from bytes in memory.

    >>> import pickle
    >>> read_pickle_bytes(pickle.dumps({0: [1, 2]}))
    {0: [1, 2]}
    """
    try:
        return finish(interpret(content, CONSTRUCTORS))
    except DAMAGES as error:
        raise ValueError(f"it is damaged ({type(error).__name__}).") from None


@dataclass(eq=False)
class DType:
    """The element type of an array: a boolean, integer or floating-point number."""

    value: np.dtype

    def set_state(self, state: Any) -> None:
        _version, order, *rest = _versioned(state)
        if _text(order) not in ("<", ">", "|", "=") or any(part not in (None, -1, 0) for part in rest[:6]):
            raise ValueError("an array's element type must be a plain number.")
        self.value = self.value.newbyteorder(_text(order))  # type: ignore[arg-type]


@dataclass(eq=False)
class Array:
    """A numpy array: its bytes in the file, and how to read them."""

    content: bytes | None = None
    dtype: DType | None = None
    shape: tuple[int, ...] = ()
    order: str = "C"

    def set_state(self, state: Any) -> None:
        _version, shape, dtype, fortran, content = _versioned(state)
        self._set(content, dtype, shape, "F" if fortran else "C")

    def _set(self, content: Any, dtype: Any, shape: Any, order: str) -> None:
        if not isinstance(dtype, DType) or type(content) is not bytes or order not in ("C", "F"):
            raise ValueError("an array must hold bytes of a plain number type.")
        self.content, self.dtype, self.shape, self.order = content, dtype, read_shape(shape), order

    def finish(self) -> np.ndarray:
        if self.content is None or self.dtype is None:
            raise ValueError("an array was begun and never filled.")
        wanted = self.dtype.value.itemsize * prod(self.shape)
        if wanted != len(self.content):
            raise ValueError(f"an array of shape {self.shape} must hold {wanted} bytes. Got {len(self.content)}.")
        values = np.frombuffer(self.content, self.dtype.value).reshape(self.shape, order=self.order)  # type: ignore[call-overload]
        return values.astype(self.dtype.value.newbyteorder("="), order="C")


@dataclass(eq=False)
class Matrix:
    """A scipy CSR matrix, its index arrays checked before scipy sees them."""

    parts: dict[str, Any] | None = None

    def set_state(self, state: Any) -> None:
        if type(state) is not dict:
            raise ValueError(f"the state of a csr_matrix must be a dictionary. Got {type(state).__name__}.")
        self.parts = {_text(key): value for key, value in state.items()}

    def finish(self) -> Any:
        from scipy.sparse import csr_matrix

        if self.parts is None:
            raise ValueError("a csr_matrix was begun and never filled.")
        data, indices, indptr = (_values(self.parts, name) for name in ("data", "indices", "indptr"))
        shape = read_shape(self.parts["_shape" if "_shape" in self.parts else "shape"])
        _check_rows(data, indices, indptr, shape)
        return csr_matrix((data, indices, indptr), shape=shape)


def finish(value: Any) -> Any:
    """The object of the file: an array or a matrix made from its note, anything else as it is."""
    if isinstance(value, Array | Matrix):
        return value.finish()
    if isinstance(value, DType | Name):
        raise ValueError("it must hold an array, a csr_matrix or a dictionary. Got a bare name or type.")
    return value


def _check_rows(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or len(indptr) != shape[0] + 1 or len(data) != len(indices):
        raise ValueError("the parts of a csr_matrix must fit each other.")
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("the row pointers of a csr_matrix must rise from 0 to its number of entries.")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise ValueError(f"the columns of a csr_matrix must lie from 0 to {shape[1] - 1}.")


def _reconstruct(kind: Any, shape: Any, code: Any) -> Array:
    if type(kind) is not Name or kind.name != "ndarray":
        raise ValueError("only a numpy.ndarray can be reconstructed.")
    return Array()


def _from_buffer(content: Any, dtype: Any, shape: Any, order: Any) -> Array:
    array = Array()
    array._set(content, dtype, shape, _text(order))
    return array


def _dtype(code: Any, *flags: Any) -> DType:
    if not _NUMBERS.fullmatch(_text(code)):
        raise ValueError(f"an array must hold numbers. Got element type {_text(code)[:20]!r}.")
    return DType(np.dtype(_text(code)))


def _encode(text: Any, encoding: Any) -> bytes:
    """Bytes as Python 3 writes them in protocol 2."""
    if type(text) is not str or _text(encoding) != "latin1":
        raise ValueError("bytes must be written as latin1 text.")
    return text.encode("latin1")


def _versioned(state: Any) -> tuple[Any, ...]:
    if type(state) is not tuple or len(state) < 5 or type(state[0]) is not int:
        raise ValueError("an array's state must be a tuple that begins with its version.")
    return state


def _text(value: Any) -> str:
    if type(value) is bytes:
        return value.decode("latin1")
    if type(value) is not str:
        raise ValueError(f"text is expected instead of a {type(value).__name__}.")
    return value


def read_shape(value: Any) -> tuple[int, ...]:
    """The value, found to be a tuple of sizes."""
    if type(value) is not tuple or any(type(size) is not int or size < 0 for size in value):
        raise ValueError("a shape must be a tuple of sizes.")
    return value


def _values(parts: dict[str, Any], name: str) -> np.ndarray:
    part = parts.get(name)
    values = part.finish() if isinstance(part, Array) else None
    if values is None or values.ndim != 1 or values.dtype.kind not in ("biuf" if name == "data" else "iu"):
        raise ValueError(f"`{name}` of a csr_matrix must be an array of one dimension.")
    return values


# The old names are those of the public files, the new ones what numpy 2 and scipy 1.8 write.
CONSTRUCTORS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "dtype"): _dtype,
    ("numpy", "ndarray"): refuse_call,
    ("scipy.sparse.csr", "csr_matrix"): Matrix,
    ("scipy.sparse._csr", "csr_matrix"): Matrix,
    ("collections", "defaultdict"): default_dictionary("list"),
    ("__builtin__", "list"): refuse_call,
    ("builtins", "list"): refuse_call,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): lambda: b"",  # empty bytes as Python 3 writes them in protocol 2
}
