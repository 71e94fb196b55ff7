"""What a reader of files is to the fuzzers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Reader:
    """A reader under test.

    Attributes:
        write: fills an empty folder with a valid case.
        read: reads that folder; raises ValueError with one clear sentence, or gives the answer.
        sound: raises AssertionError where the answer cannot be right.
        damaged: glob of the files to be damaged.
        sealed: whether a digest covers these files, so that there is no answer but the undamaged one.
        exchanged: beginnings of names that may be unpickled: what processes send each other, or numba keeps; none of a
            damaged file.
    """

    write: Callable[[Path], None]
    read: Callable[[Path], Any]
    sound: Callable[[Any], None]
    damaged: str = "**/*"
    sealed: bool = False
    exchanged: tuple[str, ...] = ()

    def files(self, folder: Path) -> list[Path]:
        """The files that may be damaged, in a fixed order."""
        return sorted(path for path in folder.glob(self.damaged) if path.is_file())
