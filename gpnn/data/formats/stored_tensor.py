"""What a file of `torch.save` says of its tensors: notes of ours, checked before a tensor is made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gpnn.data.constructors import Name, refuse_call
from gpnn.data.pickle_machine import Action, Machine

LAYOUTS = {"torch.sparse_coo": 2, "torch.sparse_csr": 3, "torch.sparse_csc": 3}  # and how many tensors each is made of
STORAGES = {
    "DoubleStorage": torch.float64, "FloatStorage": torch.float32, "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32,
    "ShortStorage": torch.int16, "CharStorage": torch.int8, "ByteStorage": torch.uint8, "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64, "ComplexDoubleStorage": torch.complex128,
}  # fmt: skip
UNTYPED = {"uint16": torch.uint16, "uint32": torch.uint32, "uint64": torch.uint64}  # whose storages are plain bytes


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
    sizes, strides = _counts(size), _counts(stride)
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
    return StoredSparse(layout, parts, _counts(content[count]))


def _counts(values: Any) -> tuple[int, ...]:
    if type(values) is not tuple or any(type(value) is not int or value < 0 for value in values):
        raise ValueError("a size must be a tuple of counts.")
    return values


def _ordered_dictionary() -> dict[str, Any]:
    return {}


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
    ("torch", "Size"): _counts,
    ("collections", "OrderedDict"): _ordered_dictionary,
    **{("torch", name): refuse_call for name in (*STORAGES, *UNTYPED)},
    ("torch.storage", "UntypedStorage"): refuse_call,
}
