"""A lock on a run folder, so that two processes do not write into one run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock_run(path: Path) -> Iterator[None]:
    """Hold the run folder for this process; the system lets go of it when the process ends, however it ends.

    Where the system or the file system knows no such lock, nothing is held.

    Raises:
        ValueError: when another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"A run folder must be written by one process at a time. {str(path)!r} is in use by another."
            ) from None
        except OSError:  # a network file system without locks
            pass
        yield
    finally:
        os.close(handle)
