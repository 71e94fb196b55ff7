"""A SQLite file that may come from a stranger: opened for reading, nothing but selects, bounded steps and memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnn.data.tables.column import alike, as_text, python_column
from gpnn.storage.read import check_expansion, reason

if TYPE_CHECKING:
    import pyarrow

READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)
LONGEST = 1 << 20  # bytes of a value
ROWS, BYTES = 1 << 16, 1 << 24  # turned into columns at a time
STEPS, STEPS_PER_BYTE, TICK = 10**9, 5_000, 10**6  # of SQLite's machine that a query may take


class SQLiteFile:
    """An open file; a context manager.

    Attributes:
        name: of the file, for errors.
        tables: the names of its tables and views.

    Raises:
        ValueError: when it is not a database, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.name, self._size, self._ticks = path.name, path.stat().st_size, 0
        log = path.with_name(f"{path.name}-wal")
        pending = log.is_file() and log.stat().st_size > 0  # without changes to merge no file is made beside it
        address = f"{path.resolve().as_uri()}?mode=ro{'' if pending else '&immutable=1'}"
        self._connection = sqlite3.connect(address, uri=True)
        try:
            self._restrict()
            query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
            self.tables = [name for (name,) in islice(self._rows(query), 1, None)]
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> SQLiteFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def select(self, query: str) -> pyarrow.Table:
        """What a query selects.

        Raises:
            ValueError: when it does anything else, does not end, or gives more than the memory for it.
        """
        import pyarrow

        parts, size = [], 0
        for part in self._parts(query):
            size += part.nbytes
            check_expansion(self.name, size, self._size)
            parts.append(part)
        names = parts[0].column_names
        columns = [alike([part.column(place).chunk(0) for part in parts]) for place in range(len(names))]
        return pyarrow.table([pyarrow.concat_arrays(each) for each in columns], names=names)

    def batches(self, query: str) -> Iterator[pyarrow.Table]:
        """What a query selects, at least one table, all of one schema; run twice, for a column may hold any type."""
        import pyarrow

        kinds: list[set[pyarrow.DataType]] = []
        for part in self._parts(query):
            kinds = kinds or [set() for _ in part.schema]
            for kind, found in zip(part.schema.types, kinds):
                found.add(kind)
        for part in self._parts(query):
            arrays = [each.chunk(0) for each in part.columns]
            same = [array if len(found) == 1 else as_text(array) for array, found in zip(arrays, kinds)]
            yield pyarrow.table(same, names=part.column_names)

    def _parts(self, query: str) -> Iterator[pyarrow.Table]:
        """What a query selects, in parts of bounded size, at least one; each has the types of its own values."""
        waiting: list[tuple] = []
        size = 0
        with closing(self._rows(query)) as rows:
            names = next(rows)
            for row in rows:
                waiting.append(row)
                size += 8 * len(row) + sum(len(value) for value in row if type(value) is str)
                if len(waiting) == ROWS or size > BYTES:
                    yield self._table(waiting, names)
                    waiting, size = [], 0
        yield self._table(waiting, names)

    def _table(self, rows: list[tuple], names: tuple[str, ...]) -> pyarrow.Table:
        import pyarrow

        columns = []
        for place, name in enumerate(names):
            values = [row[place] for row in rows]
            if any(type(value) is bytes for value in values):
                raise ValueError(f"{self.name}, column {name[:80]}: must hold text or numbers. Got BLOB.")
            columns.append(python_column(values))
        return pyarrow.table(columns, names=list(names))

    def _rows(self, query: str) -> Generator[Any, None, None]:
        """The names of the columns, then the rows."""
        self._ticks = 0
        try:
            cursor = self._connection.execute(query)
            yield tuple(str(each[0]) for each in cursor.description)
            yield from cursor
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
            what = f"{self.name} must answer a query that only selects"
            raise ValueError(f"{what}. Got: {reason(error)}.") from None

    def _restrict(self) -> None:
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "mmap_size = 0"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._connection.set_authorizer(_authorize)
        self._connection.set_progress_handler(self._tick, TICK)

    def _tick(self) -> bool:
        """Whether a query has taken too long; also where Ctrl-C is heard."""
        self._ticks += 1
        return self._ticks * TICK > STEPS + STEPS_PER_BYTE * self._size


def _authorize(action: int, first: str | None, second: str | None, *where: str | None) -> int:
    allowed = action in READING and second != "load_extension"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
