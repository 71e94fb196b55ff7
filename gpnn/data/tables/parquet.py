"""Tables as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpnn.data.tables.column import plain_column
from gpnn.data.tables.limits import check_size
from gpnn.data.tables.table import Table

if TYPE_CHECKING:
    import pyarrow

ROWS = 1 << 20  # read at a time, so that a file that unpacks without end is noticed


def read_parquet(path: Path) -> Table:
    """A table of columns of text and numbers.

    Raises:
        ValueError: when it is no Parquet file, holds other columns, or unpacks to too much.
    """
    import pyarrow

    table = read_parquet_columns(path)
    columns = {}
    for name, values in zip(table.column_names, table.columns):
        try:
            columns[name] = plain_column(values)
        except (TypeError, ValueError, pyarrow.ArrowException):
            raise ValueError(
                f"{path.name}, column {name[:80]}: must hold text or numbers. Got {values.type}."
            ) from None
    return Table(path.name, columns, place)


def read_parquet_columns(path: Path) -> pyarrow.Table:
    """The columns of a Parquet file in arrow's own types, names distinct, size checked while it is read."""
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:  # of pages that have one
            names = file.schema_arrow.names
            if len(set(names)) != len(names) or "" in names:
                shown = ", ".join(names)[:200]
                raise ValueError(f"{path.name}: every column must have a name of its own. Got {shown!r}.")
            batches, size = [], 0
            for batch in file.iter_batches(batch_size=ROWS):
                size += batch.nbytes
                check_size(path.name, size)
                batches.append(batch)
            return pyarrow.Table.from_batches(batches, file.schema_arrow)
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError, KeyError, UnicodeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
        raise ValueError(f"{path.name} must be a Parquet file. Got: {reason}.") from None


def place(row: int) -> str:
    """Where a row stands in a file without lines."""
    return f"row {row} (from 0)"
