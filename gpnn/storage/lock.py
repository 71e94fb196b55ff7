"""Locks on folders, which the system takes back when their process ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
        BlockingIOError: when another process holds it and `wait` is not asked for.
    """
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True
