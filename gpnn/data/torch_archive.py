"""The files that `torch.save` writes, read without torch's unpickler: nothing that they name is called."""

from __future__ import annotations

import math
import sys
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpnn.data.pickle_machine import Action, Constructors, Machine, Name, interpret, refuse_call
from gpnn.data.tables.binary import fill
from gpnn.data.unpickle import read_shape
from gpnn.storage.read import check_expansion, check_size, reason

LAYOUTS = {"torch.sparse_coo": 2, "torch.sparse_csr": 3, "torch.sparse_csc": 3}  # and how many tensors each is made of
STORAGES = {
    "DoubleStorage": torch.float64, "FloatStorage": torch.float32, "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32,
    "ShortStorage": torch.int16, "CharStorage": torch.int8, "ByteStorage": torch.uint8, "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64, "ComplexDoubleStorage": torch.complex128,
}  # fmt: skip
UNTYPED = {"uint16": torch.uint16, "uint32": torch.uint32, "uint64": torch.uint64}  # whose storages are plain bytes


class TorchArchive:
    """An open file of `torch.save`; a context manager.

    Args:
        path: the file.
        constructors: the names that it may use beside those of tensors.

    Attributes:
        content: what was saved; a tensor is a note, which :meth:`tensor` reads.

    Raises:
        ValueError: when it is not such a file, needs too much memory, or uses another name. What damaged bytes make
            the standard library raise is left as it is, here and in :meth:`tensor`.
    """

    def __init__(self, path: Path, constructors: Constructors) -> None:
        self._name = path.name
        self._storages: dict[str, Tensor] = {}
        self._zip = zipfile.ZipFile(path)
        try:
            check_size(path.name, sum(member.file_size for member in self._zip.infolist()))
            self._folder = self._find_folder()
            self._check_byte_order()
            program = self._read("data.pkl").numpy().tobytes()
            self.content = interpret(program, {**CONSTRUCTORS, **constructors}, OPCODES)
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> TorchArchive:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    def tensor(self, note: StoredTensor | StoredSparse) -> Tensor:
        """The tensor that a note describes; strided ones of one storage share its memory.

        Raises:
            ValueError: when it shows more than its storage holds, or its indices do not fit.
        """
        if isinstance(note, StoredTensor):
            return self._strided(note)
        parts = [self._strided(part) for part in note.parts]
        make: Any = getattr(torch, f"{note.layout.removeprefix('torch.')}_tensor")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch warns once per process that CSR is in beta
            try:
                return make(*parts, note.size, check_invariants=True)
            except RuntimeError as error:
                raise ValueError(f"a sparse tensor does not hold together: {reason(error)}.") from None

    def _strided(self, note: StoredTensor) -> Tensor:
        content = self._storage(note.storage.key)
        shown = math.prod(note.size) * note.dtype.itemsize
        check_expansion(self._name, shown, len(content))  # a stride of 0 repeats without storage
        values = content.ne(0) if note.dtype == torch.bool else content.view(note.dtype)
        if 0 in note.size:
            return values.new_empty(note.size)
        last = note.offset + sum((size - 1) * stride for size, stride in zip(note.size, note.stride))
        if last >= len(values):
            raise ValueError(f"a tensor must lie within the {len(values)} numbers of its storage. Got number {last}.")
        return values.as_strided(note.size, note.stride, note.offset)

    def _storage(self, key: str) -> Tensor:
        """The bytes of a storage, read once."""
        if key not in self._storages:
            self._storages[key] = self._read(f"data/{key}")
        return self._storages[key]

    def _read(self, name: str) -> Tensor:
        """A member's bytes, uint8; their checksum is verified as they are read."""
        member = self._zip.getinfo(self._folder + name)
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"its member {name} must not be compressed.")
        content = torch.empty(member.file_size, dtype=torch.uint8)
        with self._zip.open(member) as stream:
            fill(content.numpy().data, stream)
        return content

    def _find_folder(self) -> str:
        """The folder within the archive, "graph/" in what was saved as `graph.pt`."""
        found = [name.removesuffix("data.pkl") for name in self._zip.namelist() if name.endswith("/data.pkl")]
        if len(found) != 1:
            raise ValueError("it must hold one data.pkl.")
        return found[0]

    def _check_byte_order(self) -> None:
        named = self._folder + "byteorder" in self._zip.namelist()  # files of torch before 2.1 name none
        if named and self._read("byteorder").numpy().tobytes() != sys.byteorder.encode():
            raise ValueError(f"it must be written on a {sys.byteorder}-endian machine.")


@dataclass(frozen=True, eq=False)
class Storage:
    """A member of the archive: its key, and the element type where it has one."""

    key: str
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A strided tensor: which elements of a storage it shows."""

    storage: Storage
    dtype: torch.dtype
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class StoredSparse:
    """A sparse tensor: its layout, its indices and values, and its shape."""

    layout: str
    parts: tuple[StoredTensor, ...]
    size: tuple[int, ...]


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, metadata: Any = None) -> Any:
    dtype = storage.dtype if type(storage) is Storage else None
    return _strided(storage, dtype, offset, size, stride, metadata)


def _tensor_of_type(
    storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Any:
    known = UNTYPED.get(dtype.name) if type(dtype) is Name else None
    return _strided(storage, known, offset, size, stride, metadata)


def _strided(storage: Any, dtype: Any, offset: Any, size: Any, stride: Any, metadata: Any) -> StoredTensor:
    if type(storage) is not Storage or dtype is None or metadata:
        raise ValueError("a tensor must show the numbers of a storage.")
    sizes, strides = read_shape(size), read_shape(stride)
    if type(offset) is not int or offset < 0 or len(sizes) != len(strides):
        raise ValueError("a tensor must have an offset, and a stride for each size.")
    return StoredTensor(storage, dtype, offset, sizes, strides)


def _parameter(data: Any, requires_grad: Any, hooks: Any) -> StoredTensor:
    if type(data) is not StoredTensor:
        raise ValueError("a parameter must be made of a tensor.")
    return data


def _layout(name: Any) -> str:
    if type(name) is not str or name not in LAYOUTS:
        raise ValueError(f"a sparse tensor must be one of {', '.join(LAYOUTS)}.")
    return name


def _sparse(layout: Any, content: Any) -> StoredSparse:
    count = LAYOUTS[_layout(layout)]
    if type(content) is not tuple or len(content) not in (count + 1, count + 2):  # newer files: whether it is coalesced
        raise ValueError("a sparse tensor must have indices, values and a shape.")
    parts = content[:count]
    if any(type(part) is not StoredTensor for part in parts):
        raise ValueError("a sparse tensor must be made of strided ones.")
    return StoredSparse(layout, parts, read_shape(content[count]))


def _persistent(machine: Machine) -> None:
    """A storage: ("storage", its type, its key, the device that it was on, its number of elements)."""
    named = machine.stack.pop()
    if type(named) is not tuple or len(named) != 5 or named[0] != "storage":
        raise ValueError("what is kept outside of the pickle must be a storage.")
    kind, key = named[1], named[2]
    if type(kind) is not Name or type(key) is not str or not key.isdecimal():
        raise ValueError("a storage must have a type and a number.")
    if kind.name != "UntypedStorage" and kind.name not in STORAGES:
        raise ValueError("a storage must hold numbers.")
    machine.stack.append(Storage(key, STORAGES.get(kind.name, torch.uint8)))


OPCODES: dict[int, Action] = {ord("Q"): _persistent}
# Every name that a file of tensors may use; a reader adds those of the objects that hold them.
CONSTRUCTORS: dict[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor_of_type,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._utils", "_rebuild_sparse_tensor"): _sparse,
    ("torch.serialization", "_get_layout"): _layout,
    ("torch", "Size"): read_shape,
    ("collections", "OrderedDict"): lambda: {},
    **{("torch", name): refuse_call for name in (*STORAGES, *UNTYPED)},
    ("torch.storage", "UntypedStorage"): refuse_call,
}
