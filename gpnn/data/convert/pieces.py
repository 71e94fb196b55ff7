"""Pieces: ranges of the input files that are read on their own, in any order."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpnn.data.stored.npy_file import read_header
from gpnn.data.tables.dialect import TEXT, ending, find_dialect
from gpnn.data.tables.tables import EDGE_READERS, NODE_READERS, match_files
from gpnn.storage.read import reason

COLUMNS = ("source", "target")  # `.npy` files that make a folder one table
PIECE_BYTES = 64e6  # of a file of text


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


def find_inputs(word: str | Path, part: str) -> list[Path]:
    """The files that a path, a folder or a pattern names, by name; a folder of `source.npy`, … is one itself.

    Args:
        word: what the user gave.
        part: "edges" or "nodes".

    Raises:
        ValueError: when there is none, or one has an unknown ending.
    """
    path = Path(word).expanduser()
    if path.is_dir() and all((path / f"{name}.npy").is_file() for name in COLUMNS):
        return [path]
    found = match_files(path, endings(part))
    if not found:
        raise ValueError(f"The {part} must be a file, a folder of files or a pattern. {str(word)!r} names none.")
    for each in found:
        if ending(each) not in endings(part):
            raise ValueError(f"A file of {part} must end in {', '.join(endings(part))}. Got {each.name!r}.")
    return found


def endings(part: str) -> tuple[str, ...]:
    """The endings of files that can be read as "edges" or "nodes"."""
    return (*EDGE_READERS, ".npy") if part == "edges" else tuple(NODE_READERS)


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
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path.name} must be a Parquet file. Got: {reason(error)}.") from None
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
