"""gather: rows of a graph in CSR form, bucket by bucket from runs, appended to the files of the graph in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gpnn.csr import index_type, pointers
from gpnn.csr_kernel import place, sum_hashes
from gpnn.data.convert.runs import Edges, Layout, Run
from gpnn.data.kernels import merge_rows, order_rows
from gpnn.data.npy_file import NpyWriter
from gpnn.storage.atomic import write_json
from gpnn.storage.read import read_json

T = TypeVar("T")
R = TypeVar("R")
SORT_BYTES = 48  # that an edge takes while its bucket is sorted, at most
WORD = 0xFFFFFFFFFFFFFFFF


class Rows(NamedTuple):
    """Consecutive rows: how many entries each has, `[n]`, and of each entry column, type and weight, `[e]`."""

    counts: np.ndarray
    columns: np.ndarray
    types: np.ndarray | None
    weights: np.ndarray | None
    digest: tuple[int, int, int]  # sums of hashes of the edges, of these by position, and of the reverses


@dataclass(frozen=True, eq=False)
class Gather:
    """Turns runs into the files `PREFIX_ptr.npy`, `PREFIX_col.npy`, and `edge_type.npy`, `edge_weight.npy`.

    Attributes:
        folder: where the files are written, with `PREFIX.json`, which says how far they are.
        prefix: "in" or "out".
        layout: of the graph.
        runs: in the order of the input; none where the files are finished.
        duplicates: "keep", "merge" or "sum".
        limit: edges that a thread sorts at once.
    """

    folder: Path
    prefix: str
    layout: Layout
    runs: Sequence[Run]
    duplicates: str
    limit: int

    def write(self, threads: int, progress: Callable[[int, int], None]) -> dict[str, Any]:
        """Write the rows; what an earlier call finished is kept.

        Args:
            threads: that sort.
            progress: called with the buckets done and their number.

        Returns:
            `num_edges`, and the sums of hashes `digest`, `listed_digest` and `reverse_digest`.
        """
        done = self.done
        units = self._units(done["bucket"])
        with ExitStack() as stack:
            files = {name: stack.enter_context(file) for name, file in self._files(done)}
            if not done["bucket"]:
                files["ptr"].append(np.zeros(1, np.int64))
            for rows, (_, last) in zip(ordered_map(self._build, units, threads), units):  # which so comes to its end
                self._append(files, rows, done)
                for file in files.values():
                    file.flush()
                done = done | {"bucket": last}
                if last < self.layout.num_buckets:
                    write_json(self._marker, done)
                progress(last, self.layout.num_buckets)
        write_json(self._marker, done)  # the files have their headers now
        return done

    @property
    def done(self) -> dict[str, Any]:
        """How far the files are: the buckets and edges that they hold, and the sums of hashes of these edges."""
        if self._marker.is_file():
            return read_json(self._marker)
        return {"bucket": 0, "num_edges": 0, "digest": 0, "listed_digest": 0, "reverse_digest": 0}

    @property
    def _marker(self) -> Path:
        return self.folder / f"{self.prefix}.json"

    @property
    def finished(self) -> bool:
        return self.done["bucket"] == self.layout.num_buckets

    def _units(self, first: int) -> list[tuple[int, int]]:
        """Ranges of buckets, from `first` on, whose edges a thread can sort at once, or of one bucket."""
        sizes = sum((run.ends for run in self.runs), np.zeros(self.layout.num_buckets + 1, np.int64))
        units = []
        while first < self.layout.num_buckets:
            last = int(np.searchsorted(sizes, sizes[first] + self.limit, side="right")) - 1
            last = min(max(last, first + 1), self.layout.num_buckets)
            units.append((first, last))
            first = last
        return units

    def _files(self, done: dict[str, Any]) -> Iterator[tuple[str, NpyWriter]]:
        """Open one after the other, each when the one before it is in the caller's hands."""
        bucket, edges = done["bucket"], done["num_edges"]
        rows = self.layout.bounds(bucket)[0] + 1 if bucket else None
        path, kept = self.folder, edges if bucket else None
        yield "ptr", NpyWriter(path / f"{self.prefix}_ptr.npy", np.int64, kept=rows)
        yield "columns", NpyWriter(path / f"{self.prefix}_col.npy", index_type(self.layout.num_nodes), kept=kept)
        if self.layout.typed:
            yield "types", NpyWriter(path / "edge_type.npy", np.int32, kept=kept)
        if self.layout.weighted:
            yield "weights", NpyWriter(path / "edge_weight.npy", np.float32, kept=kept)

    def _append(self, files: dict[str, NpyWriter], rows: Rows, done: dict[str, Any]) -> None:
        files["ptr"].append(done["num_edges"] + np.cumsum(rows.counts, dtype=np.int64))
        for name in ("columns", "types", "weights"):
            if name in files:
                files[name].append(getattr(rows, name))
        found = rows.digest[0], rows.digest[1] + 2 * done["num_edges"] * rows.digest[0], rows.digest[2]
        for name, value in zip(("digest", "listed_digest", "reverse_digest"), found):
            done[name] = (done[name] + value) & WORD
        done["num_edges"] += len(rows.columns)

    def _build(self, unit: tuple[int, int]) -> Rows:
        """The rows of a range of buckets."""
        first, last = unit
        if last == first + 1 and self._size(first) > self.limit:
            return self._build_large(first)
        pieces = [(run.read(first, last), run.ends[first : last + 1] - run.ends[first]) for run in self.runs]
        parts = []
        for bucket in range(last - first):
            edges = [piece.select(slice(ends[bucket], ends[bucket + 1])) for piece, ends in pieces]
            start, stop = self.layout.bounds(first + bucket)
            parts.append(self._rows(start, stop, _join(edges, self.layout)))
        return _concat_rows(parts)

    def _size(self, bucket: int) -> int:
        return sum(int(run.ends[bucket + 1] - run.ends[bucket]) for run in self.runs)

    def _build_large(self, bucket: int) -> Rows:
        """The rows of a bucket with more edges than fit: ranges of its rows, the bucket read anew for each.

        The edges into one node must fit.
        """
        first, last = self.layout.bounds(bucket)
        counts = np.zeros(last - first, np.int64)
        for run in self.runs:
            counts += np.bincount(run.read(bucket, bucket + 1).rows, minlength=last - first)
        ends, parts, start = np.cumsum(counts), [], 0
        while start < last - first:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + self.limit, side="right")))
            chosen = (_within(run.read(bucket, bucket + 1), start, stop) for run in self.runs)
            parts.append(self._rows(first + start, first + stop, _join(list(chosen), self.layout)))
            start = stop
        return _concat_rows(parts)

    def _rows(self, first: int, last: int, edges: Edges) -> Rows:
        """The rows of the nodes from `first` to `last`, from their edges, rows numbered from 0."""
        ptr = pointers(np.bincount(edges.rows, minlength=last - first)[: last - first])
        if edges.types is None and edges.weights is None:
            columns, types, weights = _plain_rows(ptr, edges, merge=self.duplicates != "keep"), None, None
        else:
            columns, types, weights = _full_rows(ptr, edges, self.duplicates)
        counts = np.diff(ptr)
        return Rows(counts, columns, types, weights, _digest(first, counts, columns, types, weights))


def _concat_rows(parts: Sequence[Rows]) -> Rows:
    counts, columns, types, weights, digests = zip(*parts)
    starts = pointers([len(each) for each in columns])[:-1].tolist()
    listed = sum(each[1] + 2 * start * each[0] for each, start in zip(digests, starts))
    digest = sum(each[0] for each in digests) & WORD, listed & WORD, sum(each[2] for each in digests) & WORD
    return Rows(np.concatenate(counts), np.concatenate(columns), _concat(types), _concat(weights), digest)


def _join(pieces: list[Edges], layout: Layout) -> Edges:
    if not pieces:
        column, row, *extra = (np.empty(0, kind) for kind in layout.streams)
        types = extra.pop(0) if layout.typed else None
        return Edges(row, column, types, extra[0] if extra else None)
    rows, columns, types, weights = zip(*pieces)
    return Edges(np.concatenate(rows), np.concatenate(columns), _concat(types), _concat(weights))


def _within(edges: Edges, first: int, last: int) -> Edges:
    """The edges into rows from `first` to `last`, counted from there."""
    chosen = edges.select((edges.rows >= first) & (edges.rows < last))
    return chosen._replace(rows=chosen.rows - np.uint16(first))


def _concat(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None


def _plain_rows(ptr: np.ndarray, edges: Edges, *, merge: bool) -> np.ndarray:
    """The columns of each row, rising; `ptr` shrinks where equal ones are merged."""
    columns = np.empty_like(edges.columns)
    place(edges.rows, edges.columns, ptr[:-1].copy(), columns, columns[:0])
    order_rows(ptr, columns, columns[:0])
    return columns[: merge_rows(ptr, columns, columns[:0])].copy() if merge else columns


def _full_rows(
    ptr: np.ndarray, edges: Edges, duplicates: str
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Columns, types and weights of each row by (column, type); of equal ones the first or their sum where wanted."""
    columns, order = np.empty_like(edges.columns), np.empty(len(edges.rows), np.int64)
    place(edges.rows, edges.columns, ptr[:-1].copy(), columns, order)
    types, weights = (None if each is None else each[order] for each in (edges.types, edges.weights))
    num_types = 1 if types is None or not len(types) else int(types.max()) + 1
    key = columns.astype(np.int64) * num_types + (0 if types is None else types)
    order = np.arange(len(key))
    order_rows(ptr, key, order)
    if duplicates != "keep":
        first = np.empty(len(key), np.int64)
        first = first[: merge_rows(ptr, key, first)]
        if duplicates == "sum" and weights is not None and len(first):
            summed = np.add.reduceat(weights[order].astype(np.float64), first).astype(np.float32)
            weights = np.empty_like(weights)
            weights[order[first]] = summed
        order = order[first]
    return columns[order], None if types is None else types[order], None if weights is None else weights[order]


def _digest(
    first: int, counts: np.ndarray, columns: np.ndarray, types: np.ndarray | None, weights: np.ndarray | None
) -> tuple[int, int, int]:
    """The sums of hashes of these edges, as :func:`gpnn.graph.digest_edges` has them, and of their reverses."""
    rows = np.repeat(np.arange(first, first + len(counts)), counts)
    kinds = np.empty(0, np.int64) if types is None else types
    bits = np.empty(0, np.int64) if weights is None else weights.astype(np.float64).view(np.int64)
    there, back = (sum_hashes(0, *ends, kinds, bits) for ends in ((columns, rows), (rows, columns)))
    return int(there[0]), int(there[1]), int(back[0])


def ordered_map(function: Callable[[T], R], items: Sequence[T], threads: int) -> Iterator[R]:
    """The results of threads in the order of the items, as many at a time as there are threads."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: list[Future[R]] = []
        try:
            for item in items:
                if len(waiting) >= threads:
                    yield waiting.pop(0).result()
                waiting.append(pool.submit(function, item))
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()
