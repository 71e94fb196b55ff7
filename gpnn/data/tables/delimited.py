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

    delimiter = _delimiter(path)
    try:
        table = _parse(path, delimiter)
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        raise ValueError(_explain(path, delimiter, str(error))) from None
    names = _check_names(path, table.column_names)
    return Table(path.name, _filled_columns(names, table), _Lines(path, delimiter))


def read_names(path: Path) -> list[str]:
    """The names of the columns.

    Raises:
        ValueError: when they are not distinct.
    """
    header = next(_rows(path, _delimiter(path)), (1, []))[1]
    return _check_names(path, header)


def parse_lines(path: Path, start: int, stop: int) -> Table:
    """The rows between two bytes of a file, each the start of a row, as :func:`read_delimited` gives all of them.

    Raises:
        ValueError: when they are not rows of the table, naming the line.
    """
    import pyarrow
    from pyarrow import csv

    names, delimiter = read_names(path), _delimiter(path)
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(stop - start)
    reading = csv.ReadOptions(column_names=names, block_size=max(BLOCK, len(content)), use_threads=False)
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in content)
    texts = csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.large_string()))
    place = _Lines(path, delimiter, start)
    try:
        if not content.strip():
            return Table(path.name, {name: pyarrow.array([], pyarrow.int64()) for name in names}, place)
        table = csv.read_csv(pyarrow.BufferReader(content), reading, parsing, texts)
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        raise ValueError(_explain(path, delimiter, str(error), start, len(names))) from None
    return Table(path.name, _filled_columns(names, table), place)


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _check_names(path: Path, found: list[str]) -> list[str]:
    names = [name.strip() for name in found]
    if len(set(names)) != len(names) or "" in names:
        shown = _delimiter(path).join(names)[:200]
        raise ValueError(f"{path.name}, line 1: every column must have a name of its own. Got {shown!r}.")
    return names


def _filled_columns(names: list[str], table: pyarrow.Table) -> dict[str, pyarrow.Array]:
    """The columns in plain kinds, without rows that hold no value."""
    import pyarrow

    columns = [plain_column(column) for column in table.columns]
    kept = _filled_rows(columns)
    if kept is not None:
        columns = [column.filter(pyarrow.array(kept)) for column in columns]
    return dict(zip(names, columns))


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

    def __init__(self, path: Path, delimiter: str, start: int = 0) -> None:
        self.path, self.delimiter, self.start = path, delimiter, start

    def __call__(self, row: int) -> str:
        count = 0 if self.start else -1  # the header is the first
        for line, values in _rows(self.path, self.delimiter, self.start):
            count += any(value.strip() for value in values)
            if count == row + 1:
                return f"line {line}"
        return f"row {row} (from 0)"


def _rows(path: Path, delimiter: str, start: int = 0) -> Iterator[tuple[int, list[str]]]:
    """The line on which each row from byte `start` on begins, and its values."""
    import csv

    before = _count_lines(path, start)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        file.seek(start)
        reader: Any = csv.reader(file, delimiter=delimiter)
        line = before + 1
        try:
            for values in reader:
                yield line, values
                line = before + reader.line_num + 1
        except csv.Error:  # a value longer than Python's reader accepts
            return


def _count_lines(path: Path, stop: int) -> int:
    """How many lines end before byte `stop`."""
    count = 0
    with path.open("rb") as file:
        while stop > 0 and (content := file.read(min(BLOCK, stop))):
            count, stop = count + content.count(b"\n"), stop - len(content)
    return count


def _explain(path: Path, delimiter: str, reason: str, start: int = 0, width: int | None = None) -> str:
    """The error for a file that arrow refuses, of whose rows from byte `start` on one is wrong."""
    if "Expected" in reason and "columns" in reason:
        for line, values in _rows(path, delimiter, start):
            width = len(values) if width is None else width
            if values and len(values) != width:
                shown = f"{len(values)}: {delimiter.join(values)[:200]!r}"
                return f"{path.name}, line {line}: {width} values are expected. Got {shown}."
    if "straddling" in reason:
        return f"{path.name} must have lines of at most {BLOCK >> 20} MiB. Got a longer one."
    return f"{path.name} must be a table in UTF-8 with a header: {reason.rstrip('.')}."
