"""Batches: the rows of a piece, as tables of bounded size that know where in their file each row stands."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpnn.data.convert.pieces import Piece
from gpnn.data.stored.npy_file import read_header, read_rows
from gpnn.data.tables.binary import array_column, place
from gpnn.data.tables.column import plain_column
from gpnn.data.tables.delimited import parse_lines, read_names, stream_delimited
from gpnn.data.tables.dialect import TEXT, ending, find_dialect
from gpnn.data.tables.headers import apply_names, name_columns
from gpnn.data.tables.table import Table, shifted
from gpnn.data.tables.tables import EDGE_READERS
from gpnn.storage.read import reason

if TYPE_CHECKING:
    import pyarrow

EDGE_COLUMNS = ("source", "target", "type", "weight")


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
    return name_columns(Table(path.name, dict.fromkeys(column_names(path), None), str), names)


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
    import pyarrow
    from pyarrow import parquet

    first = piece.first_row
    try:
        with parquet.ParquetFile(piece.path, page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            wanted = [name for name in names if columns is None or name in columns]
            groups = range(piece.start, piece.stop)
            for batch in file.iter_batches(rows, groups, wanted, use_threads=False):
                found = {name: _plain(piece.path, name, batch.column(name)) for name in wanted}
                yield Table(piece.path.name, found, partial(shifted, place, first))
                first += batch.num_rows
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError, KeyError, UnicodeError) as error:
        raise ValueError(f"{piece.path.name} must be a Parquet file. Got: {reason(error)}.") from None


def _plain(path: Path, name: str, values: Any) -> pyarrow.Array:
    import pyarrow

    try:
        return plain_column(values)
    except (TypeError, ValueError, pyarrow.ArrowException):
        raise ValueError(f"{path.name}, column {name[:80]}: must hold text or numbers. Got {values.type}.") from None


def _whole(path: Path, rows: int) -> Iterator[Table]:
    """A file that is read at once, in slices."""
    table = EDGE_READERS[ending(path)](path)
    for start in range(0, max(table.num_rows, 1), rows):
        columns = {name: values.slice(start, rows) for name, values in table.columns.items()}
        yield Table(table.file, columns, partial(shifted, table.place, start))
