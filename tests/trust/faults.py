"""An error at the n-th call of a function: a disk that fails, or memory that cannot be had, wherever it may be."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

ERRORS: dict[str, Callable[[], BaseException]] = {
    "disk": lambda: OSError(errno.EIO, os.strerror(errno.EIO)),
    "memory": lambda: MemoryError("no memory"),
}
WRITERS = (
    "gpnn.storage",
    "gpnn.run",
    "gpnn.distributed",
    "gpnn.data.convert",
    "gpnn.data.stored",
    "gpnn.data.npy_file",
)


class Injected:
    """A profile function that raises in the n-th call that this thread makes in the modules that write.

    Calls of functions that they define, and those that they make of functions in C (`open`, `os.fsync`, …), count.

    Args:
        error: makes what is raised.
        number: of the call, from 1; 0 only counts.
    """

    def __init__(self, error: Callable[[], BaseException], number: int) -> None:
        self.error, self.number, self.count = error, number, 0
        self.place = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "c_call") or not frame.f_globals.get("__name__", "").startswith(WRITERS):
            return
        self.count += 1
        if self.count == self.number:
            sys.setprofile(None)
            what = frame.f_code.co_qualname if event == "call" else getattr(argument, "__name__", "")
            self.place = f"{frame.f_globals['__name__']}:{frame.f_lineno} {what}"
            raise self.error()

    def run(self, work: Callable[[], object]) -> BaseException | None:
        """What `work` raised."""
        sys.setprofile(self)
        try:
            work()
        except (Exception, KeyboardInterrupt) as error:
            return error
        finally:
            sys.setprofile(None)
        return None


def each_call(work: Callable[[], object], error: Callable[[], BaseException], most: int) -> list[int]:
    """The calls to fail, evenly over those that `work` makes, at most so many; `work` is done once."""
    counted = Injected(error, 0)
    assert counted.run(work) is None
    step = max(1, counted.count // most)
    return list(range(1, counted.count + 1, step))
