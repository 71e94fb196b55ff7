"""Tensors and a description in one safetensors file, with a digest: what is damaged is refused, never read wrong."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
import xxhash
from torch import Tensor

from gpnn.pages import advise_large
from gpnn.storage.atomic import naming, replace_file
from gpnn.storage.read import check_regular, digest_json, parse_json

XXH3, SHA256 = "xxh3_128", "sha256"
HASH_OF_LENGTH = {32: XXH3, 64: SHA256}  # a digest in hexadecimal names its hash by its length
BLOCK = 1 << 22  # bytes that have a digest of their own
PIECE = 1 << 18  # bytes that are read or copied at once, so that they are still in the cache when they are digested
MOST_THREADS = 8


def digest_blocks(path: Path, algorithm: str = XXH3) -> list[str]:
    """The digest of each block of 4 MiB of a file, in hexadecimal."""
    count = num_blocks(path.stat().st_size)
    if count == 1:
        return [_digest(path, 0, algorithm)]
    with _pool() as pool:
        return list(pool.map(lambda number: _digest(path, number, algorithm), range(count)))


def digest_file(path: Path, algorithm: str = XXH3) -> str:
    """One digest of a file of any size: the sha256 over those of its blocks, in hexadecimal."""
    return hashlib.sha256("".join(digest_blocks(path, algorithm)).encode()).hexdigest()


def digest_bytes(
    content: Sequence[Tensor], copies: Sequence[Tensor] | None = None, algorithm: str = XXH3
) -> list[list[str]]:
    """The digests of the blocks of each tensor of bytes, uint8 `[n]`.

    Args:
        content: the bytes.
        copies: where the threads that digest them copy them to, or None; then what is digested are the copies.
        algorithm: `xxh3_128` or one of hashlib's.
    """
    with _pool() as pool:
        running = []
        for each, kept in zip(content, content if copies is None else copies):
            blocks = zip(each.split(BLOCK), kept.split(BLOCK))
            running.append(
                [pool.submit(_digest_copy, block.numpy(), copy.numpy(), algorithm) for block, copy in blocks]
            )
        return [[digest.result() for digest in each] for each in running]


def _digest_copy(block: np.ndarray, copy: np.ndarray, algorithm: str) -> str:
    """The digest of a block after it is copied, where `copy` is another array."""
    digest = _hasher(algorithm)
    for start in range(0, len(block), PIECE):
        piece = copy[start : start + PIECE]
        if copy.ctypes.data != block.ctypes.data:
            np.copyto(piece, block[start : start + PIECE])
        digest.update(piece.data)
    return digest.hexdigest()


def num_blocks(num_bytes: int) -> int:
    """How many blocks a file has; an empty one has one.

    >>> num_blocks(0), num_blocks(BLOCK), num_blocks(BLOCK + 1)
    (1, 1, 2)
    """
    return max(1, -(-num_bytes // BLOCK))


class BlockCheck:
    """Compares blocks of files with their digests while the caller reads them; leaving it waits for the answer.

    Leaving raises ValueError where a block has another digest, also in place of an error that such a block led to.
    """

    def __init__(self) -> None:
        self._pool = _pool(busy=1)
        self._running: dict[tuple[Path, int], tuple[Future[str], str]] = {}

    def start(self, path: Path, digests: Sequence[str], begin: int, end: int) -> None:
        """Have the bytes from `begin` to `end` of a file compared, with the rest of their blocks.

        Args:
            path: the file.
            digests: of all its blocks, as :func:`digest_blocks` returns them with either hash.
            begin: where to begin.
            end: where to end; `begin` where there is nothing to compare.
        """
        for number in range(begin // BLOCK, -(-end // BLOCK)):
            if (path, number) not in self._running:
                digest = digests[number] if number < len(digests) else ""
                algorithm = HASH_OF_LENGTH.get(len(digest), XXH3)
                self._running[path, number] = self._pool.submit(_digest, path, number, algorithm), digest

    def __enter__(self) -> BlockCheck:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None or issubclass(kind, Exception):  # else Ctrl-C, which waits for nothing
                self._wait()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def _wait(self) -> None:
        for (path, number), (found, digest) in self._running.items():
            if found.result() != digest:
                raise ValueError(
                    f"{path} must be as it was written. The bytes from {number * BLOCK} on have another digest."
                ) from None


def _digest(path: Path, number: int, algorithm: str) -> str:
    digest, buffer, left = _hasher(algorithm), bytearray(PIECE), BLOCK
    with path.open("rb", buffering=0) as file:
        file.seek(number * BLOCK)
        while left and (count := file.readinto(memoryview(buffer)[: min(PIECE, left)])):
            digest.update(memoryview(buffer)[:count])
            left -= count
    return digest.hexdigest()


def _hasher(algorithm: str) -> Any:
    return xxhash.xxh3_128() if algorithm == XXH3 else hashlib.new(algorithm)


def _pool(busy: int = 0) -> ThreadPoolExecutor:
    """Threads for the cores that are not busy with the caller's own work."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(max(1, min(cores - busy, MOST_THREADS)), thread_name_prefix="digest")


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
        ValueError: when the file is damaged or another's, or no file but a pipe, which may never end.
    """
    while True:
        check_regular(path)
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
