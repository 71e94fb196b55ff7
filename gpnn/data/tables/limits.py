"""How much memory one file may ask for, so that a few hostile bytes cannot take the whole machine."""

from __future__ import annotations

import os
from functools import cache

SHARE = 0.5  # of the machine's memory
WITHOUT_ANSWER = 8 << 30  # bytes, where the system does not say


def check_size(file: str, num_bytes: int) -> None:
    """Raise ValueError when the content of a file would take more than half of the machine's memory.

    Args:
        file: its name, for the error.
        num_bytes: what its content takes in memory, as it declares or as it was counted.

    >>> check_size("edges.npz", 1000)
    """
    limit = memory_limit()
    if num_bytes > limit:
        sizes = f"the {limit / 2**30:.1f} GiB that a file may take here. Got {num_bytes / 2**30:,.1f} GiB"
        raise ValueError(f"{file} must unpack to at most {sizes}.")


@cache
def memory_limit() -> int:
    """The bytes that one file may take in memory."""
    try:
        return int(SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return WITHOUT_ANSWER
