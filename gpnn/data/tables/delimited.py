"""Tables as text: a header line, then one row per line, values separated by commas or tabs."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpnn.data.tables.column import plain_column
from gpnn.data.tables.table import Table

if TYPE_CHECKING:
    import pyarrow

BLOCK = 1 << 24  # bytes; no line may be longer


def read_delimited(path: Path) -> Table:
    """A table of values separated by tabs where the file ends in `.tsv`, else by commas; empty lines are skipped.

    Raises:
        ValueError: when it is not such a table, naming the line.
    """
    import pyarrow

    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        table = _parse(path, delimiter)
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        raise ValueError(_explain(path, delimiter, str(error))) from None
    names = [name.strip() for name in table.column_names]
    if len(set(names)) != len(names) or "" in names:
        shown = delimiter.join(names)[:200]
        raise ValueError(f"{path.name}, line 1: every column must have a name of its own. Got {shown!r}.")
    columns = [plain_column(column) for column in table.columns]
    kept = _filled_rows(columns)
    if kept is not None:
        columns = [column.filter(pyarrow.array(kept)) for column in columns]
    return Table(path.name, dict(zip(names, columns)), _Lines(path, delimiter))


def _parse(path: Path, delimiter: str) -> pyarrow.Table:
    """The file as columns of text."""
    import pyarrow
    from pyarrow import csv

    # Where arrow has a single thread, that of pyarrow 15 can wait for ever after a file that it refused.
    reading = csv.ReadOptions(block_size=BLOCK, use_threads=pyarrow.cpu_count() > 1)
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=_has_quotes(path))
    try:
        first = csv.read_csv(pyarrow.BufferReader(_first_row(path)), read_options=reading, parse_options=parsing)
    except pyarrow.ArrowInvalid:  # a quote amid a name, which does not open one
        first = csv.read_csv(path, read_options=reading, parse_options=parsing)
    texts = csv.ConvertOptions(column_types=dict.fromkeys(first.column_names, pyarrow.large_string()))
    return csv.read_csv(path, read_options=reading, parse_options=parsing, convert_options=texts)


def _first_row(path: Path) -> bytes:
    """The lines up to the first whose quotes are closed and that is not empty, as far as a block goes."""
    row = b""
    with path.open("rb") as file:
        for line in file.read(BLOCK).splitlines(keepends=True):
            row += line
            if row.strip() and row.count(b'"') % 2 == 0:
                break
    return row


def _has_quotes(path: Path) -> bool:
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b'"') >= 0


def _filled_rows(columns: list[pyarrow.Array]) -> np.ndarray | None:
    """Which rows hold any value, bool `[R]`; None where all do."""
    from pyarrow import compute, types

    if any(types.is_int64(column.type) for column in columns):
        return None
    empty = np.ones(len(columns[0]), bool)
    for column in columns:
        empty &= np.asarray(compute.equal(column, ""))
        if not empty.any():
            return None
    return ~empty


class _Lines:
    """The line of a row ("line 7"), counted by reading the file again, since only errors need it."""

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path, self.delimiter = path, delimiter

    def __call__(self, row: int) -> str:
        count = -1
        for line, values in _rows(self.path, self.delimiter):
            count += any(value.strip() for value in values)
            if count == row + 1:  # the header is the first
                return f"line {line}"
        return f"row {row} (from 0)"


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The line on which each row begins, and its values."""
    import csv

    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader: Any = csv.reader(file, delimiter=delimiter)
        start = 1
        try:
            for values in reader:
                yield start, values
                start = reader.line_num + 1
        except csv.Error:  # a value longer than Python's reader accepts
            return


def _explain(path: Path, delimiter: str, reason: str) -> str:
    """The error for a file that arrow refuses."""
    if "Expected" in reason and "columns" in reason:
        width = None
        for line, values in _rows(path, delimiter):
            width = len(values) if width is None else width
            if values and len(values) != width:
                shown = f"{len(values)}: {delimiter.join(values)[:200]!r}"
                return f"{path.name}, line {line}: {width} values are expected. Got {shown}."
    if "straddling" in reason:
        return f"{path.name} must have lines of at most {BLOCK >> 20} MiB. Got a longer one."
    return f"{path.name} must be a table in UTF-8 with a header: {reason.rstrip('.')}."
