"""Atomic writes: a file is complete or absent, also after a power cut; temporary folders and locks for them."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ABANDONED = re.compile(r"\..+\.[0-9a-f]{16}\.partial")
DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # not a mistake of the user


def replace_file(path: Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a temporary file beside `path`, flush it to the disk, and rename it.

    A kill leaves the old file or the new one; temporary files are removed by the next write in the same folder.

    Raises:
        OSError: naming `path`, when the disk is full or the folder cannot be written.
    """
    with staging_folder(path) as folder:
        partial = folder / "partial"
        partial.touch()
        mode = partial.stat().st_mode  # of any new file here; safetensors would make it private
        write(partial)
        partial.chmod(mode)
        sync_file(partial)
        partial.replace(path)
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write a file atomically."""
    replace_file(path, lambda partial: _write(partial, content))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a mapping as JSON atomically; numbers that JSON cannot hold (NaN, infinity) become null."""
    write_text(path, json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """The same value with None for every number that is not finite, as JSON requires.

    >>> finite({"loss": float("nan"), "sizes": [1, 2.5]})
    {'loss': None, 'sizes': [1, 2.5]}
    """
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, and flush their names to the disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_folder(each.parent)


def sync_file(path: Path) -> None:
    """Flush a file to the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk (where the system can open a folder)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: Path, content: bytes | memoryview) -> None:
    path.write_bytes(content)


@contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path` for this process alone, to make in it what will be `path`; it is gone afterwards.

    While it is in use it is locked. A killed process leaves its folder behind, unlocked: the next
    staging folder in the same parent folder removes it.

    Raises:
        OSError: naming `path`, when the disk is full or the parent folder cannot be written.
    """
    remove_abandoned(path.parent)
    try:
        folder, handle = _make(path)
        try:
            with naming(path):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if handle is not None:
                os.close(handle)
    except OSError as error:
        if isinstance(error.filename, str) and error.filename.startswith(str(path.with_name(f".{path.name}."))):
            error.filename = str(path)  # the user never saw the temporary name
        raise


def remove_abandoned(parent: Path) -> None:
    """Remove the staging folders in `parent` that this user's processes left behind and none holds any more."""
    try:
        names = os.listdir(parent)  # noqa: PTH208
    except OSError:  # a folder that may be written but not listed
        return
    for name in filter(ABANDONED.fullmatch, names):
        _remove_unless_held(parent / name)


def _make(path: Path) -> tuple[Path, int | None]:
    """The folder and the handle that holds it; retried where another process removed it before it was locked."""
    while True:
        folder = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
        folder.mkdir()
        try:
            handle = open_folder(folder)
        except FileNotFoundError:
            continue
        if handle is None or (_try_lock(handle) and folder.exists()):
            return folder, handle
        os.close(handle)


def _try_lock(handle: int) -> bool:
    """False when another process holds the lock."""
    try:
        lock(handle, wait=False)
    except BlockingIOError:
        return False
    return True


def _remove_unless_held(folder: Path) -> None:
    try:
        handle = open_folder(folder)
    except OSError:  # gone meanwhile, a link, or another's
        return
    if handle is None:
        return
    try:
        if os.fstat(handle).st_uid == os.geteuid() and lock(handle, wait=False):
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:  # its process lives
        pass
    finally:
        os.close(handle)


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Add `path` to an error of the disk that names no file, with the system's message.

    >>> with naming("model.safetensors"):
    ...     raise OSError(errno.ENOSPC, "writing failed")
    Traceback (most recent call last):
        ...
    OSError: [Errno 28] No space left on device: 'model.safetensors'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in (*DISK_FAILURES, errno.EROFS):
            error.filename, error.strerror = str(path), os.strerror(error.errno)
        raise


@contextmanager
def wait_for_folder(folder: Path) -> Iterator[None]:
    """Hold a folder as soon as no other process does; nothing is held where the system knows no such lock."""
    handle = open_folder(folder.resolve())
    try:
        if handle is not None:
            lock(handle, wait=True)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def open_folder(folder: Path) -> int | None:
    """A handle to lock a folder by, never through a link; None where folders cannot be opened (Windows).

    Raises:
        OSError: when there is no such folder.
    """
    if os.name != "posix":
        return None
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def lock(handle: int, *, wait: bool) -> bool:
    """Lock an open folder until its handle is closed; False where its file system knows no locks.

    Raises:
        BlockingIOError: when another process holds it and `wait` is False.
    """
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True
