"""Workplaces: folders to make something in before it gets its name; what a kill leaves of them is removed later."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpnn.storage.lock import lock, open_folder
from gpnn.storage.naming import naming

ABANDONED = re.compile(r"\..+\.[0-9a-f]{16}\.partial")


@contextmanager
def workplace(path: Path) -> Iterator[Path]:
    """A new folder beside `path` for this process alone, to make in it what will be `path`; it is gone afterwards.

    While it is in use it is locked. A killed process leaves its folder behind, unlocked: the next to ask for a
    workplace in the same parent folder removes it.

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
    """Remove the workplaces in `parent` that this user's processes left behind and none holds any more."""
    try:
        names = os.listdir(parent)  # noqa: PTH208
    except OSError:  # a folder that may be written but not listed
        return
    for name in filter(ABANDONED.fullmatch, names):
        _remove_unless_held(parent / name)


def _make(path: Path) -> tuple[Path, int | None]:
    """The folder and the handle that holds it; anew where one who cleans up came between making and locking it."""
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
