"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpnn.storage.workplace import workplace


def replace_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, bring it to the disk, and give it its name.

    A kill leaves the old file or the new one, and nothing that the next write in the same folder does not remove.

    Raises:
        OSError: naming `path`, when the disk is full or the folder cannot be written.
    """
    with workplace(path) as folder:
        partial = folder / "partial"
        partial.touch()
        mode = partial.stat().st_mode  # of any new file here; safetensors would make it private
        write(partial)
        partial.chmod(mode)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    replace_file(path, lambda partial: _write(partial, text))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a mapping as JSON atomically; numbers that JSON cannot hold (NaN, infinity) become null."""
    write_text(path, json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """The same value with None for every number that is not finite, as JSON asks.

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


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk (where the system lets a folder be opened)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
