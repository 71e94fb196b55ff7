"""Tensors and a description in one safetensors file, with a digest: what is damaged is refused, never read wrong."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpnn.storage.atomic import naming, replace_file
from gpnn.storage.read import parse_json


def write_tensors(path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """Write tensors and a description, as JSON in the metadata beside its digest, to one file, atomically.

    The same tensors and description result in the same bytes.

    Raises:
        OSError: when the disk is full or the folder cannot be written.
    """
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # one key only: safetensors writes several in random order
    metadata = {"gpnn": json.dumps({**description, "sha256": _digest(stored, description)}, sort_keys=True)}
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
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OverflowError, RuntimeError) as error:
        raise ValueError(f"{path} must be {kind}. Got a damaged file ({error}).") from None
    if description.pop("sha256", None) != _digest(tensors, description):
        raise ValueError(f"{path} must be {kind} as it was written. Got a damaged file (its digest is another).")
    return tensors, description


def _digest(tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def map_tensor(tensor: Tensor, folder: Path | str) -> Tensor:
    """A copy of the tensor in a memory-mapped file that has no name any more, so that nothing is left behind.

    Room for all of it is reserved first: a mapped page that finds none would kill the process.

    Raises:
        OSError: naming the folder, when the disk is full.
    """
    size = tensor.numel()
    with naming(folder), tempfile.NamedTemporaryFile(dir=folder) as file:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size * tensor.element_size())
        mapped = torch.from_file(file.name, shared=True, size=size, dtype=tensor.dtype).view(tensor.shape)
    return mapped.copy_(tensor)
