"""A graph in a database file of SQLite or DuckDB: two tables, views or queries, which are only read.

The file may come from a stranger. SQLite: nothing but selects, bounded steps and memory. DuckDB: no other file, no
extension, bounded memory.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnn.check import import_extra
from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.binary import check_distinct, plain_table
from gpnn.data.tables.column import alike, as_text, python_column
from gpnn.data.tables.table import Table, find_column
from gpnn.data.tables.vocabulary import COLUMNS, Choices, with_choices
from gpnn.storage.atomic import make_folder, replace_file
from gpnn.storage.read import check_expansion, check_ratio, digest_json, memory_limit, undamaged

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data

ENDINGS = (".sqlite", ".sqlite3", ".duckdb", ".db")
QUERY = re.compile(r"\s*(SELECT|WITH|FROM|VALUES)\s", re.IGNORECASE)
SELECTS = "answer a query that only selects"
READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)
LONGEST = 1 << 20  # bytes of a value
ROWS, BYTES = 1 << 16, 1 << 24  # read at a time
STEPS, STEPS_PER_BYTE, TICK = 10**9, 5_000, 10**6  # of SQLite's machine that a query may take
CONFINED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}


@with_choices(COLUMNS)
def database(path: str | Path, choices: Choices, *, nodes: str = "nodes", edges: str = "edges") -> Data:
    """The graph of two tables in a database file; other options are those of :func:`gpnn.data.tables.tables`.

    The file is opened for reading, extensions and other files are out of reach, and a query may only select.

    Args:
        path: a file of SQLite or DuckDB.
        vocabulary: of the graph that a model was trained on: columns, classes and edge types keep its meaning.
        nodes: a table or view, or a query that selects the nodes; "": the nodes that the edges name.
        edges: likewise of the edges.

    Raises:
        ValueError: in one sentence that names the file, the table, the row, the column and the value.
    """
    with closing(_open(Path(path))) as file:
        rows = _read(file, "nodes", nodes) if nodes else None
        return assemble(rows, _read(file, "edges", edges), choices)


def _open(path: Path) -> SQLiteFile | DuckDBFile:
    with path.open("rb") as file:
        head = file.read(16)
    if head == b"SQLite format 3\0":
        return SQLiteFile(path)
    if head[8:12] == b"DUCK":
        return DuckDBFile(path)
    raise ValueError(f"{path.name} must be a database of SQLite or DuckDB. Got a file that is neither.")


def export_table(path: Path, part: str, word: str, folder: Path) -> Path:
    """A Parquet file of a table, a view or what a query selects, written batch by batch; one that is there is kept.

    Args:
        path: a file of SQLite or DuckDB.
        part: "nodes" or "edges".
        word: the table, the view or the query.
        folder: where the file is made, in a folder of its own by what the database was.

    Raises:
        ValueError: when there is no such table, or it unpacks to more than a thousand times the database.
    """
    with closing(_open(path)) as file:
        _, query = _query(file, part, word, f"--{part}")
        files = [each for each in (path, path.with_name(f"{path.name}-wal")) if each.is_file()]
        state = [[str(each.resolve()), each.stat().st_size, each.stat().st_mtime_ns] for each in files]
        made = folder / digest_json({"query": query, "files": state})[:16] / f"{file.name}.{part}.parquet"
        if not made.is_file():
            make_folder(made.parent)
            replace_file(made, lambda partial: _write(file, query, partial, path.stat().st_size))
    return made


def _write(file: SQLiteFile | DuckDBFile, query: str, path: Path, num_stored: int) -> None:
    from pyarrow import parquet

    batches, size = file.batches(query), 0
    first = next(batches)
    check_distinct(file.name, first.column_names)
    with parquet.ParquetWriter(path, first.schema, write_page_checksum=True) as out:
        for batch in chain([first], batches):
            size += batch.nbytes
            check_ratio(file.name, size, num_stored)
            out.write_table(batch)


def _read(file: SQLiteFile | DuckDBFile, part: str, word: str) -> Table:
    """The table of a name, or what a query selects."""
    name, query = _query(file, part, word, f"data.{part}")
    return plain_table(f"{file.name}, {name}", file.select(query))


def _query(file: SQLiteFile | DuckDBFile, part: str, word: str, option: str) -> tuple[str, str]:
    """What errors call a table or query, and the query."""
    found = find_column(file.tables, word)
    if found is None and not QUERY.match(word):
        names = ", ".join(name[:80] for name in file.tables[:12]) or "no table"
        raise ValueError(
            f"{file.name} must hold a table {word[:80]} ({option} names another, or a query that begins with SELECT). "
            f"Got {names}."
        )
    if found is None:
        return part, word
    return found, 'SELECT * FROM "{}"'.format(found.replace('"', '""'))


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

    def close(self) -> None:
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
        with undamaged(self.name, SELECTS, (sqlite3.Error, sqlite3.Warning, UnicodeError)):
            cursor = self._connection.execute(query)
            yield tuple(str(each[0]) for each in cursor.description)
            yield from cursor

    def _restrict(self) -> None:
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "mmap_size = 0"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._connection.set_authorizer(_authorize)
        self._connection.set_progress_handler(self._tick, TICK)

    def _tick(self) -> bool:
        """Whether a query has taken too long; also where Ctrl-C is handled."""
        self._ticks += 1
        return self._ticks * TICK > STEPS + STEPS_PER_BYTE * self._size


def _authorize(action: int, first: str | None, second: str | None, *where: str | None) -> int:
    allowed = action in READING and second != "load_extension"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


class DuckDBFile:
    """An open file; a context manager.

    Attributes:
        name: of the file, for errors.
        tables: the names of its tables and views.

    Raises:
        ValueError: when it is not a database, or damaged; or without the package, naming the extra.
    """

    def __init__(self, path: Path) -> None:
        self._duckdb = import_extra("duckdb", "duckdb", f"The file {path.name}")
        self.name, self._size = path.name, path.stat().st_size
        config = {**CONFINED, "memory_limit": f"{memory_limit()}B"}
        with undamaged(self.name, "be an undamaged DuckDB database", (self._duckdb.Error,)):
            self._connection = self._duckdb.connect(str(path), read_only=True, config=config)
            query = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
            self.tables = [name for (name,) in self._connection.execute(query).fetchall()]

    def close(self) -> None:
        self._connection.close()

    def select(self, query: str) -> pyarrow.Table:
        """What a query selects.

        Raises:
            ValueError: when it does anything else, or gives more than the memory for it.
        """
        import pyarrow

        parts, size = [], 0
        for part in self.batches(query):
            size += part.nbytes
            check_expansion(self.name, size, self._size)
            parts.append(part)
        return pyarrow.concat_tables(parts)

    def batches(self, query: str) -> Iterator[pyarrow.Table]:
        """What a query selects, at least one table."""
        import pyarrow

        with undamaged(self.name, SELECTS, (self._duckdb.Error, pyarrow.ArrowException, OSError)):
            kinds = [each.type for each in self._connection.extract_statements(query)]
            if kinds != [self._duckdb.StatementType.SELECT]:
                raise ValueError(f"{self.name} must {SELECTS}. Got another statement.")
            answer = self._connection.sql(query)
            read = getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader  # the name of older versions
            reader = read(ROWS)
            yield pyarrow.Table.from_batches([], reader.schema)
            for batch in reader:
                yield pyarrow.Table.from_batches([batch])
