"""Digests of large files by blocks: threads compute them, and compare them while other work on the file goes on.

Hashes and reads release the GIL, so that the blocks of a file are digested beside whatever the caller does with it.
A digest finds damage and mistakes; whoever can write the file can write its digest, too. XXH3 finds them as well as
sha256 at twenty times its speed (`benchmarks/digests.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import xxhash
from torch import Tensor

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
