"""Tensors and a description in one safetensors file, with a digest: what is damaged is refused, never read wrong."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpnn.pages import advise_large
from gpnn.storage.atomic import naming, replace_file
from gpnn.storage.blocks import SHA256, XXH3, digest_bytes
from gpnn.storage.read import digest_json, parse_json

BY_BLOCKS = {"xxh3_of_blocks": XXH3, "sha256_of_blocks": SHA256}  # names of a file's digest; new files have the first
_DTYPES = {f"F{8 * dtype.itemsize}": dtype for dtype in (torch.float16, torch.float32, torch.float64)}
_DTYPES |= {f"I{8 * dtype.itemsize}": dtype for dtype in (torch.int8, torch.int16, torch.int32, torch.int64)}
_DTYPES |= {"BF16": torch.bfloat16, "BOOL": torch.bool, "U8": torch.uint8}  # as safetensors names them
IN_ONE = "sha256"  # that of files of the oldest version, which one thread alone can compute


def write_tensors(path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """Write tensors and a description, as JSON in the metadata beside its digest, to one file, atomically.

    The same tensors and description result in the same bytes.

    Raises:
        OSError: when the disk is full or the folder cannot be written.
    """
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    name, algorithm = next(iter(BY_BLOCKS.items()))
    digest = _digest_blocks(stored, description, algorithm)
    # one key only: safetensors writes several in random order
    metadata = {"gpnn": json.dumps({**description, name: digest}, sort_keys=True)}
    save_tensors(path, stored, metadata)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors on the CPU to a safetensors file, atomically.

    Raises:
        OSError: when the disk is full or the folder cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    try:
        replace_file(path, lambda partial: save_file(contiguous, partial, metadata))
    except SafetensorError as error:
        number = re.search(r"(?:os error|code:) (\d+)", str(error))  # in new or old versions
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the description that :func:`write_tensors` wrote; nothing is unpickled.

    Args:
        path: the file.
        kind: what the file should be, for the sentence: "a model", "a checkpoint".

    Raises:
        ValueError: when the file is damaged or another's.
    """
    while True:
        seen = _identity(path)
        try:
            return _read(path, kind)
        except ValueError:
            # safetensors opens a file twice: one that was replaced in between looks damaged
            if _identity(path) == seen:
                raise


def tensor_places(path: Path) -> dict[str, tuple[int, int]]:
    """The bytes at which each tensor of a safetensors file begins and ends, by name; the header ends at the first."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = parse_json(file.read(size).decode(), f"The header of {path.name}")
    header.pop("__metadata__", None)
    return {
        name: (8 + size + each["data_offsets"][0], 8 + size + each["data_offsets"][1]) for name, each in header.items()
    }


def _identity(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced by another."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _read(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get("gpnn")
            if text is None:
                raise ValueError(f"{path} must be {kind} that gpnn wrote. Got another program's file.")
            description = parse_json(text, f"The description in {path.name}")
            held = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            if unknown := {each.get_dtype() for each in held.values()} - _DTYPES.keys():
                raise ValueError(f"{path} must be {kind} that gpnn wrote. Got numbers of type {min(unknown)}.")
            shapes = {name: (each.get_shape(), _DTYPES[each.get_dtype()]) for name, each in held.items()}
            tensors = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in shapes.items()}
            for tensor in tensors.values():
                advise_large(tensor)  # small ones take as long to map as the whole file to digest
            is_sealed = _is_sealed(_map(path), description, tensors)
    except (SafetensorError, OverflowError, RuntimeError, KeyError) as error:
        raise ValueError(f"{path} must be {kind}. Got a damaged file ({error}).") from None
    if not is_sealed:
        raise ValueError(f"{path} must be {kind} as it was written. Got a damaged file (its digest is another).")
    return tensors, description


def _map(path: Path) -> dict[str, Tensor]:
    """The bytes of each tensor, uint8, mapped. `get_tensor` of safetensors keeps two integers for ever per tensor."""
    content = torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8)
    return {name: content[begin:end] for name, (begin, end) in tensor_places(path).items()}


def _is_sealed(mapped: Mapping[str, Tensor], description: dict[str, Any], copies: Mapping[str, Tensor]) -> bool:
    """Copy the bytes to the tensors; whether the digest in the description, which is taken out of it, is theirs."""
    stored = {name: description.pop(name) for name in (*BY_BLOCKS, IN_ONE) if name in description}
    name = next((name for name in BY_BLOCKS if name in stored), None)
    if name is not None:
        return bool(stored[name] == _digest_blocks(copies, description, BY_BLOCKS[name], mapped))
    for name, content in mapped.items():
        _bytes(copies[name]).copy_(content)
    return stored.get(IN_ONE) == _digest_in_one(copies, description)


def _digest_blocks(
    tensors: Mapping[str, Tensor],
    description: Mapping[str, Any],
    algorithm: str,
    mapped: Mapping[str, Tensor] | None = None,
) -> str:
    """A sha256 over the description and, of each tensor, over its name, type, shape and the digests of its blocks.

    With `mapped` the tensors are filled with those bytes on the way.
    """
    names = sorted(tensors)
    kept = [_bytes(tensors[name]) for name in names]
    digests = digest_bytes(kept if mapped is None else [mapped[name] for name in names], kept, algorithm)
    parts = [[name, str(tensors[name].dtype), list(tensors[name].shape), each] for name, each in zip(names, digests)]
    return digest_json({"description": description, "tensors": parts})


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def _digest_in_one(tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(_bytes(tensor).numpy().data)
    return digest.hexdigest()


def map_tensor(tensor: Tensor, folder: Path | str) -> Tensor:
    """A copy of the tensor in a memory-mapped file; see :func:`map_empty`."""
    return map_empty(tuple(tensor.shape), tensor.dtype, folder).copy_(tensor)


def map_empty(shape: tuple[int, ...], dtype: torch.dtype, folder: Path | str) -> Tensor:
    """A tensor in a memory-mapped file that has no name any more, so that nothing is left behind.

    Room for all of it is reserved first: a mapped page that finds none would kill the process.

    Raises:
        OSError: naming the folder, when the disk is full.
    """
    size = math.prod(shape)
    with naming(folder), tempfile.NamedTemporaryFile(dir=folder) as file:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size * dtype.itemsize)
        return torch.from_file(file.name, shared=True, size=size, dtype=dtype).view(shape)
