"""How tables become a graph on the disk: the user's choices, and what memory and cores they leave for each piece."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from gpnn.check import check_choice, check_range

DUPLICATES = ("auto", "keep", "merge", "sum")
DTYPES = ("float32", "float16", "int8")
RESIDENT = 600e6  # bytes of Python, its libraries and their buffers
EDGE_BYTES = 160  # that an edge takes at most while it is read and scattered, its ids as text


@dataclass(frozen=True)
class ConvertSettings:
    """The choices of a conversion.

    Attributes:
        undirected: add the reverse of every edge.
        duplicates: of edges between the same nodes, of the same type: "keep" all, "merge" into one with the first's
            weight, "sum" their weights; "auto": "merge" where `undirected`, else "keep".
        dtype: of dense features: "float32", "float16", or "int8" with one scale per column.
        memory: bytes that the conversion may take.
        threads: that read, scatter and sort; None: one per core.

    Raises:
        ValueError: for a value that is not among the choices.
    """

    undirected: bool = False
    duplicates: str = "auto"
    dtype: str = "float32"
    memory: float = 4e9
    threads: int | None = None

    def __post_init__(self) -> None:
        check_choice("duplicates", self.duplicates, DUPLICATES)
        check_choice("dtype", self.dtype, DTYPES)
        check_range("memory", self.memory, 1e9)
        if self.threads is None:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            object.__setattr__(self, "threads", cores)
        if self.duplicates == "auto":
            object.__setattr__(self, "duplicates", "merge" if self.undirected else "keep")

    @property
    def num_threads(self) -> int:
        assert self.threads is not None
        return self.threads

    def share(self, taken: float = 0.0) -> float:
        """Bytes that a thread may use where the process has `taken` besides its libraries.

        Raises:
            ValueError: when nothing is left.
        """
        left = self.memory - RESIDENT - taken
        if left < self.num_threads * 16e6:
            needed = (RESIDENT + taken + self.num_threads * 16e6) / 1e9
            raise ValueError(
                f"`memory` must be at least the {needed:.1f} GB that ids, labels and {self.num_threads} threads take. "
                f"Got {self.memory / 1e9:.1f} GB."
            )
        return left / self.num_threads

    def batch_rows(self, taken: float = 0.0) -> int:
        """Rows of a table that a thread reads at a time."""
        return int(min(max(self.share(taken) / EDGE_BYTES, 1 << 14), 1 << 23))

    def chosen(self) -> dict[str, Any]:
        """The choices that the result depends on."""
        return {name: value for name, value in asdict(self).items() if name not in ("memory", "threads")}
