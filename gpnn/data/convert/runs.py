"""Runs: files of edges by bucket of receivers, which a piece of the input is scattered into and rows are gathered from.

A run holds how many edges each bucket has, then, bucket after bucket, all senders, all receivers (their place in the
bucket, in 16 bits), and where there are any all types and all weights. The edges of a
bucket keep the order of the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpnn.csr import index_type, pointers
from gpnn.data.kernels import count_buckets, scatter
from gpnn.storage.atomic import replace_file

MOST_ROWS = 16  # bits of a place in a bucket
FEWEST_BUCKETS = 512


class Edges(NamedTuple):
    """Edges by the number of their ends' rows, `[e]` each; types by their numbers."""

    rows: np.ndarray
    columns: np.ndarray
    types: np.ndarray | None = None
    weights: np.ndarray | None = None

    def select(self, chosen: slice | np.ndarray) -> Edges:
        """Some of the edges."""
        return Edges(*(None if each is None else each[chosen] for each in self))  # type: ignore[arg-type]

    def reversed(self) -> Edges:
        """The edges the other way, but for loops."""
        proper = self.rows != self.columns
        chosen = self if proper.all() else self.select(proper)
        return chosen._replace(rows=chosen.columns, columns=chosen.rows)


@dataclass(frozen=True)
class Layout:
    """How the edges of a graph are spread over buckets.

    Attributes:
        num_nodes: N.
        typed: whether edges have types.
        weighted: whether they have weights.
    """

    num_nodes: int
    typed: bool = False
    weighted: bool = False

    @property
    def shift(self) -> int:
        """A bucket has 2^shift rows."""
        return min(MOST_ROWS, max(0, (self.num_nodes // FEWEST_BUCKETS).bit_length() - 1))

    @property
    def num_buckets(self) -> int:
        return (self.num_nodes >> self.shift) + 1

    @property
    def streams(self) -> tuple[np.dtype, ...]:
        """The types of what a run holds of an edge."""
        kinds = [index_type(self.num_nodes), np.uint16]
        kinds += [np.int32] if self.typed else []
        return tuple(np.dtype(kind) for kind in (*kinds, *([np.float32] if self.weighted else [])))

    @property
    def edge_bytes(self) -> int:
        """Bytes of a run that an edge takes."""
        return sum(kind.itemsize for kind in self.streams)

    def bounds(self, bucket: int) -> tuple[int, int]:
        """The first node of a bucket, and one past the last."""
        first = min(bucket << self.shift, self.num_nodes)
        return first, min(first + (1 << self.shift), self.num_nodes)


def write_run(path: Path, layout: Layout, edges: Edges) -> None:
    """Scatter edges, whose rows are receivers, into a new run, atomically."""
    rows, columns, types, weights = edges
    counts = np.zeros(layout.num_buckets, np.int64)
    count_buckets(rows, layout.shift, counts)
    out = [np.empty(len(rows), kind) for kind in layout.streams[:2]]
    extra = types is not None or weights is not None
    number = np.empty(len(rows) if extra else 0, index_type(len(rows)))
    scatter(rows, columns, layout.shift, pointers(counts)[:-1], *out, number)
    present = [each for each in (types, weights) if each is not None]
    out += [each[number].astype(kind, copy=False) for each, kind in zip(present, layout.streams[2:])]

    def write(partial: Path) -> None:
        with partial.open("wb") as file:
            for each in (counts, *out):
                file.write(each.data)

    replace_file(path, write)


@dataclass(frozen=True, eq=False)
class Run:
    """A run on the disk.

    Attributes:
        path: the file.
        layout: of the graph.
        ends: where the edges of each bucket begin, `[B + 1]`.
        types: the number of each of this run's types among all, or None.
    """

    path: Path
    layout: Layout
    ends: np.ndarray
    types: np.ndarray | None = None

    @classmethod
    def open(cls, path: Path, layout: Layout, types: np.ndarray | None = None) -> Run:
        return cls(path, layout, pointers(np.fromfile(path, np.int64, layout.num_buckets)), types)

    def read(self, first: int, last: int) -> Edges:
        """The edges of the buckets from `first` to `last`, rows numbered within their bucket."""
        start, count, total = int(self.ends[first]), int(self.ends[last] - self.ends[first]), int(self.ends[-1])
        offset, found = 8 * self.layout.num_buckets, []
        for kind in self.layout.streams:
            found.append(np.fromfile(self.path, kind, count, offset=offset + start * kind.itemsize))
            offset += total * kind.itemsize
        columns, rows, *extra = found
        types = extra.pop(0) if self.layout.typed else None
        if types is not None and self.types is not None:
            types = self.types[types].astype(np.int32)
        return Edges(rows, columns, types, extra[0] if extra else None)
