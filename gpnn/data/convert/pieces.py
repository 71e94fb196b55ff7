"""Pieces: ranges of the input files that are read on their own, in any order; their size, and their rows in batches.

The settings of a conversion say what memory and cores they leave for each piece.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpnn.check import check_choice
from gpnn.data.npy_file import read_header, read_rows
from gpnn.data.tables import EDGE_READERS, find_inputs
from gpnn.data.tables.binary import array_column, open_parquet, place, plain_columns
from gpnn.data.tables.delimited import parse_lines, read_names, stream_delimited
from gpnn.data.tables.dialect import TEXT, ending, find_dialect
from gpnn.data.tables.table import FLAG, Table, apply_names, name_columns, shifted
from gpnn.data.tables.vocabulary import Choices

if TYPE_CHECKING:
    import pyarrow

Progress = Callable[[str, int, int], None]  # stage, done, of how many
DUPLICATES = ("auto", "keep", "merge", "sum")
DTYPES = ("float32", "float16", "int8")
RESIDENT = 600e6  # bytes of Python, its libraries and their buffers
EDGE_BYTES = 160  # that an edge takes at most while it is read and scattered, its ids as text
PIECE_BYTES = 64e6  # of a file of text
EDGE_COLUMNS = ("source", "target", "type", "weight")


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
        if not self.memory >= 1e9:
            raise ValueError(f"`memory` must be at least 1GB. Got {self.memory / 1e9:g} GB.")
        if self.duplicates == "auto":
            object.__setattr__(self, "duplicates", "merge" if self.undirected else "keep")

    @property
    def num_threads(self) -> int:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.threads or cores

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


@dataclass(frozen=True)
class Piece:
    """A range of one file.

    Attributes:
        path: the file, or the folder of columns.
        start: where it begins: a row group of Parquet, a byte of text, a row of arrays.
        stop: where it ends.
        first_row: rows of the file before it, where they are known.
    """

    path: Path
    start: int
    stop: int
    first_row: int = 0


@dataclass(frozen=True)
class Conversion:
    """What the stages of a conversion work on.

    Attributes:
        folder: where the files are written.
        nodes: the files of the table of nodes; without, the nodes are the rows of `features` or what the edges name.
        features: a matrix with a row per node, or None.
        labels: classes, numbers or several labels per node, or None.
        edges: the files of the edges.
        pieces: what these are cut into; one without rows has none.
        choices: how tables are understood.
        settings: directions, duplicates, types, memory and threads.
        progress: called as work is done.
    """

    folder: Path
    nodes: Sequence[Path]
    features: Path | None
    labels: Path | None
    edges: Sequence[Path]
    pieces: Sequence[Piece]
    choices: Choices
    settings: ConvertSettings
    progress: Progress


def find_edges(word: str | Path) -> list[Path]:
    """The files of edges that a path, a folder or a pattern names; a folder of `source.npy`, … is one itself.

    Raises:
        ValueError: when there is none, or one has an unknown ending.
    """
    path = Path(word).expanduser()
    if path.is_dir() and all((path / f"{name}.npy").is_file() for name in EDGE_COLUMNS[:2]):
        return [path]
    return find_inputs(path, "edges", further=(".npy",))


def cut_pieces(paths: list[Path], rows: int, share: float) -> list[Piece]:
    """The files cut into pieces.

    Args:
        paths: the files.
        rows: of a piece of Parquet or arrays.
        share: bytes of memory that a thread may use.
    """
    return [piece for path in paths for piece in _cut(path, rows, share)]


def _cut(path: Path, rows: int, share: float) -> Iterator[Piece]:
    kind = ending(path)
    if path.is_dir() or kind == ".npy":
        yield from _cut_rows(path, rows)
    elif kind == ".parquet":
        yield from _cut_groups(path, rows)
    elif kind in TEXT and find_dialect(path).plain:
        yield from _cut_text(path, int(min(PIECE_BYTES, share / 16)))
    else:
        yield Piece(path, 0, 1)


def _cut_rows(path: Path, rows: int) -> Iterator[Piece]:
    shape = read_header(path / "source.npy" if path.is_dir() else path).shape
    if not path.is_dir() and (len(shape) != 2 or 2 not in shape):
        raise ValueError(f"{path.name} must have shape [2, E] or [E, 2]. Got {list(shape)}.")
    length = shape[0] if path.is_dir() or shape[0] != 2 else shape[1]
    for start in range(0, length, rows):
        yield Piece(path, start, min(start + rows, length), start)


def _cut_groups(path: Path, rows: int) -> Iterator[Piece]:
    """Runs of row groups of about as many rows."""
    with open_parquet(path) as file:
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    start = first = taken = 0
    for number, size in enumerate(sizes):
        if taken and taken + size > rows:
            yield Piece(path, start, number, first)
            start, first, taken = number, first + taken, 0
        taken += size
    yield Piece(path, start, len(sizes), first)


def _cut_text(path: Path, size: int) -> Iterator[Piece]:
    """Ranges of whole rows after the header: a range ends at the end of a line where no quote is open."""
    length = path.stat().st_size
    if not length:
        raise ValueError(f"{path.name} must be a table with a header. It is empty.")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = stop = _after_row(content, 0, 0)
        while stop < length:
            stop = _after_row(content, start, start + size)
            yield Piece(path, start, stop)
            start = stop


def _after_row(content: mmap.mmap, start: int, position: int) -> int:
    """Where the first row that begins past `position` begins; one begins at `start`."""
    quotes, counted = 0, start
    while (end := content.find(b"\n", position)) >= 0:
        quotes += content[counted:end].count(b'"')
        if quotes % 2 == 0:
            return end + 1
        position = counted = end + 1
    return len(content)


def read_batches(
    piece: Piece, rows: int, names: Mapping[str, str], columns: Collection[str] | None = None
) -> Iterator[Table]:
    """The rows of a piece, at most `rows` at a time but for text, whose pieces are small, with our names of columns.

    Args:
        piece: what to read.
        rows: of a batch.
        names: what we call columns -> what the user does.
        columns: those wanted of a Parquet file, where it has them; None: all.

    Raises:
        ValueError: when the file cannot be read or a column holds neither text nor numbers, naming it.
    """
    given = read_header_names(piece.path, names).given
    wanted = None if columns is None else {given.get(name, name) for name in columns}
    for batch in _read(piece, rows, wanted):
        yield apply_names(batch, given)


def read_header_names(path: Path, names: Mapping[str, str]) -> Table:
    """The columns of a file by our names, without values."""
    return name_columns(Table(path.name, dict.fromkeys(column_names(path), None), str, written=FLAG), names)


def _read(piece: Piece, rows: int, columns: Collection[str] | None) -> Iterator[Table]:
    kind = ending(piece.path)
    if piece.path.is_dir() or kind == ".npy":
        yield _arrays(piece)
    elif kind == ".parquet":
        yield from _parquet(piece, rows, columns)
    elif kind in TEXT and find_dialect(piece.path).plain:
        yield parse_lines(piece.path, piece.start, piece.stop)
    elif kind in TEXT:
        yield from stream_delimited(piece.path)
    else:
        yield from _whole(piece.path, rows)


def column_names(path: Path) -> list[str]:
    """The columns of a file, in their order."""
    from pyarrow import parquet

    kind = ending(path)
    if path.is_dir():
        return [name for name in EDGE_COLUMNS if (path / f"{name}.npy").is_file()]
    if kind == ".npy":
        return ["source", "target"]
    if kind == ".parquet":
        return list(parquet.read_schema(path).names)
    return read_names(path) if kind in TEXT else list(EDGE_READERS[kind](path).columns)


def _arrays(piece: Piece) -> Table:
    path = piece.path
    if path.is_dir():
        parts = {}
        for name in column_names(path):
            header = read_header(path / f"{name}.npy")
            if len(header.shape) != 1 or header.shape[0] < piece.stop:
                raise ValueError(f"{name}.npy must have a value per edge. Got shape {list(header.shape)}.")
            parts[name] = read_rows(path / f"{name}.npy", header, piece.start, piece.stop)
    else:
        parts = dict(zip(EDGE_COLUMNS, _pair(path, piece)))
    columns = {name: array_column(path, name, values) for name, values in parts.items()}
    return Table(path.name, columns, partial(shifted, place, piece.first_row))


def _pair(path: Path, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
    """Sources and targets of an array `[2, E]` or `[E, 2]`."""
    header = read_header(path)
    if header.shape[0] != 2:
        both = read_rows(path, header, piece.start, piece.stop)
        return both[:, 0], both[:, 1]
    flat = header._replace(shape=(2 * header.shape[1],))
    first = read_rows(path, flat, piece.start, piece.stop)
    return first, read_rows(path, flat, header.shape[1] + piece.start, header.shape[1] + piece.stop)


def _parquet(piece: Piece, rows: int, columns: Collection[str] | None) -> Iterator[Table]:
    for first, batch in parquet_batches(piece, rows, columns):
        plain, others = plain_columns(batch)
        place_of = partial(shifted, place, first)
        yield name_columns(Table(piece.path.name, plain, place_of, others=others, written=FLAG), {})


def parquet_batches(
    piece: Piece, rows: int, columns: Collection[str] | None
) -> Iterator[tuple[int, pyarrow.RecordBatch]]:
    """The rows of a piece of a Parquet file in arrow's own types, and the number of the first of them."""
    first = piece.first_row
    with open_parquet(piece.path) as file:
        wanted = [name for name in file.schema_arrow.names if columns is None or name in columns]
        for batch in file.iter_batches(rows, range(piece.start, piece.stop), wanted, use_threads=False):
            yield first, batch
            first += batch.num_rows


def _whole(path: Path, rows: int) -> Iterator[Table]:
    """A file that is read at once, in slices."""
    table = EDGE_READERS[ending(path)](path)
    for start in range(0, max(table.num_rows, 1), rows):
        columns = {name: values.slice(start, rows) for name, values in table.columns.items()}
        yield Table(table.file, columns, partial(shifted, table.place, start))
