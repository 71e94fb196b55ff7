"""Tables as text: a header line, then one row per line, values separated by commas, semicolons, tabs or bars."""

from __future__ import annotations

import csv as python_csv
import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpnn.data.tables.column import plain_column
from gpnn.data.tables.dialect import BLOCK, Dialect, find_dialect, open_text, read_chunk
from gpnn.data.tables.table import Table
from gpnn.storage.read import check_expansion, undamaged

if TYPE_CHECKING:
    import pyarrow


def read_delimited(path: Path) -> Table:
    """A table of text, compressed or not, as :func:`gpnn.data.tables.dialect.find_dialect` finds it written.

    Empty lines are skipped.

    Raises:
        ValueError: when it is not such a table, naming the line.
    """
    import pyarrow

    dialect = find_dialect(path)
    try:
        table = _parse(path, dialect)
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        raise ValueError(_explain(path, dialect, str(error))) from None
    return _table(path, dialect, table, partial(_place, path, dialect, 0, 0))


def stream_delimited(path: Path) -> Iterator[Table]:
    """The same table block by block, in memory that does not grow with the file.

    Raises:
        ValueError: when it is not such a table, naming the line.
    """
    import pyarrow

    dialect, first = find_dialect(path), 0
    try:
        for batch in _stream(path, dialect, _names(path, dialect)):
            table = _table(path, dialect, batch, partial(_place, path, dialect, 0, first))
            first += table.num_rows
            yield table
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        raise ValueError(_explain(path, dialect, str(error))) from None


def read_names(path: Path) -> list[str]:
    """The names of the columns.

    Raises:
        ValueError: when they are not distinct.
    """
    dialect = find_dialect(path)
    header = next(_rows(path, dialect), (1, []))[1]
    return _check_names(path, dialect, header)


def parse_lines(path: Path, start: int, stop: int) -> Table:
    """The rows between two bytes of a plain file, each the start of a row, as :func:`read_delimited` gives all of them.

    Raises:
        ValueError: when they are not rows of the table, naming the line.
    """
    import pyarrow
    from pyarrow import csv

    names, dialect = read_names(path), find_dialect(path)
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(stop - start)
    reading = csv.ReadOptions(column_names=names, block_size=max(BLOCK, len(content)), use_threads=False)
    parsing = csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=b'"' in content)
    place = partial(_place, path, dialect, start, 0)
    try:
        if not content.strip():
            return Table(path.name, {name: pyarrow.array([], pyarrow.int64()) for name in names}, place)
        table = csv.read_csv(pyarrow.BufferReader(content), reading, parsing, _as_text(names))
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        raise ValueError(_explain(path, dialect, str(error), start, len(names))) from None
    return _table(path, dialect, table, place)


def _table(path: Path, dialect: Dialect, table: Any, place: Any) -> Table:
    names = _check_names(path, dialect, table.schema.names)
    return Table(
        path.name,
        _filled_columns(names, table),
        place,
        notes=dialect.notes(path),
        decimal_comma=dialect.delimiter == ";",
    )


def _check_names(path: Path, dialect: Dialect, found: list[str]) -> list[str]:
    names = [name.strip() for name in found]
    if len(set(names)) != len(names) or "" in names:
        shown = dialect.delimiter.join(names)[:200]
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


def _parse(path: Path, dialect: Dialect) -> pyarrow.Table:
    """The file as columns of text."""
    import pyarrow
    from pyarrow import csv

    names = _names(path, dialect)
    if dialect.plain:
        return csv.read_csv(path, *_options(dialect), _as_text(names))
    return pyarrow.Table.from_batches(list(_stream(path, dialect, names)))


def _names(path: Path, dialect: Dialect) -> list[str]:
    """The names of the columns as arrow reads them."""
    import pyarrow
    from pyarrow import csv

    try:
        return csv.read_csv(pyarrow.BufferReader(_first_row(path, dialect)), *_options(dialect)).column_names
    except pyarrow.ArrowInvalid:  # a quote amid a name, which does not open one
        with _open(path, dialect) as stream:
            return csv.open_csv(stream, *_options(dialect)).schema.names


def _stream(path: Path, dialect: Dialect, names: list[str]) -> Iterator[pyarrow.RecordBatch]:
    """The file as columns of text, block by block.

    Raises:
        ValueError: when a small file has too many of them, or its compression is damaged.
    """
    import pyarrow
    from pyarrow import csv

    size, length = 0, path.stat().st_size
    with (
        undamaged(path.name, "be an undamaged file of text", (OSError,)),
        _open(path, dialect) as stream,
        csv.open_csv(stream, *_options(dialect), _as_text(names)) as reader,
    ):
        empty = pyarrow.RecordBatch.from_arrays([[]] * len(names), schema=reader.schema)
        yield empty  # so that a table without rows has columns
        for batch in reader:
            size += batch.nbytes
            check_expansion(path.name, size, length)
            yield batch


def _options(dialect: Dialect) -> tuple[Any, Any]:
    import pyarrow
    from pyarrow import csv

    # Where arrow has a single thread, that of pyarrow 15 can wait for ever after a file that it refused.
    reading = csv.ReadOptions(block_size=BLOCK, use_threads=pyarrow.cpu_count() > 1)
    return reading, csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=dialect.quotes)


def _as_text(names: list[str]) -> Any:
    import pyarrow
    from pyarrow import csv

    return csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.large_string()))


def _open(path: Path, dialect: Dialect) -> pyarrow.NativeFile:
    return open_text(path, dialect.compression, dialect.encoding)


def _first_row(path: Path, dialect: Dialect) -> bytes:
    """The lines up to the first whose quotes are closed and that is not empty, as far as a block goes."""
    row = b""
    with _open(path, dialect) as stream:
        for line in read_chunk(stream, BLOCK).splitlines(keepends=True):
            row += line
            if row.strip() and row.count(b'"') % 2 == 0:
                break
    return row


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


def _place(path: Path, dialect: Dialect, start: int, first: int, row: int) -> str:
    """The line of a row ("line 7"), counted by reading the file again, since only errors need it.

    Rows from byte `start` on are numbered from `-first`.
    """
    count = 0 if start else -1  # the header is the first
    for line, values in _rows(path, dialect, start):
        count += any(value.strip() for value in values)
        if count == first + row + 1:
            return f"line {line}"
    return f"row {first + row} (from 0)"


def _rows(path: Path, dialect: Dialect, start: int = 0) -> Iterator[tuple[int, list[str]]]:
    """The line on which each row from byte `start` on begins, and its values."""
    before = _count_lines(path, start)
    with _open(path, dialect) as stream:
        if start:
            stream.seek(start)
        file = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", errors="replace", newline="")
        reader: Any = python_csv.reader(file, delimiter=dialect.delimiter)
        line = before + 1
        try:
            for values in reader:
                yield line, values
                line = before + reader.line_num + 1
        except python_csv.Error:  # a value longer than Python's reader accepts
            return


def _count_lines(path: Path, stop: int) -> int:
    """How many lines end before byte `stop`."""
    count = 0
    with path.open("rb") as file:
        while stop > 0 and (content := file.read(min(BLOCK, stop))):
            count, stop = count + content.count(b"\n"), stop - len(content)
    return count


def _explain(path: Path, dialect: Dialect, why: str, start: int = 0, width: int | None = None) -> str:
    """The error for a file that arrow refuses, of whose rows from byte `start` on one is wrong."""
    if "Expected" in why and "columns" in why:
        for line, values in _rows(path, dialect, start):
            width = len(values) if width is None else width
            if values and len(values) != width:
                shown = f"{len(values)}: {dialect.delimiter.join(values)[:200]!r}"
                return f"{path.name}, line {line}: {width} values are expected. Got {shown}."
    if "UTF8" in why or "utf-8" in why:
        return _explain_encoding(path, dialect)
    if "straddling" in why:
        return f"{path.name} must have lines of at most {BLOCK >> 20} MiB. Got a longer one."
    return f"{path.name} must be a table in UTF-8 with a header: {why.rstrip('.')}."


def _explain_encoding(path: Path, dialect: Dialect) -> str:
    """The error for text that is neither UTF-8 nor Latin-1 throughout, naming its first line that is not UTF-8."""
    with _open(path, dialect) as stream:
        for number, line in enumerate(io.BufferedReader(stream), 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                shown = line.decode(errors="replace").strip()[:80]
                return f"{path.name}, line {number}: must be text in UTF-8. Got {shown!r}."
    return f"{path.name} must be text in UTF-8. Got other bytes."
