"""A lock on a run folder, so that two processes do not write into one run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpnn.storage.atomic import lock, open_folder, remove_abandoned


def remove_unfinished(path: Path) -> None:
    """Remove what killed processes left unfinished in a run folder: of its files, and of its checkpoints."""
    remove_abandoned(path)
    remove_abandoned(path / "checkpoint")


@contextmanager
def lock_run(path: Path) -> Iterator[None]:
    """Hold the run folder for this process; the system releases it when the process ends, however it ends.

    What a killed process left in it unfinished is removed. Where the system or the file system knows no such lock,
    nothing is held.

    Raises:
        ValueError: when another process holds it.
    """
    handle = open_folder(path.resolve())
    try:
        if handle is not None:
            _lock(handle, path)
        remove_unfinished(path)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _lock(handle: int, path: Path) -> None:
    try:
        lock(handle, wait=False)
    except BlockingIOError:
        raise ValueError(
            f"A run folder must be written by one process at a time. {str(path)!r} is in use by another."
        ) from None
