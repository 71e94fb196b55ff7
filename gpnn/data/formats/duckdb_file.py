"""A DuckDB file that may come from a stranger: opened for reading, no other file, no extension, bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpnn.extra import import_extra
from gpnn.storage.read import check_size, memory_limit, reason

if TYPE_CHECKING:
    import pyarrow

ROWS = 1 << 16  # of a batch
CONFINED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}


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
        self.name = path.name
        config = {**CONFINED, "memory_limit": f"{memory_limit()}B"}
        try:
            self._connection = self._duckdb.connect(str(path), read_only=True, config=config)
            query = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
            self.tables = [name for (name,) in self._connection.execute(query).fetchall()]
        except self._duckdb.Error as error:
            raise ValueError(f"{self.name} must be an undamaged DuckDB database. Got: {reason(error)}.") from None

    def __enter__(self) -> DuckDBFile:
        return self

    def __exit__(self, *error: object) -> None:
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
            check_size(self.name, size)
            parts.append(part)
        return pyarrow.concat_tables(parts)

    def batches(self, query: str) -> Iterator[pyarrow.Table]:
        """What a query selects, at least one table."""
        import pyarrow

        try:
            kinds = [each.type for each in self._connection.extract_statements(query)]
            if kinds != [self._duckdb.StatementType.SELECT]:
                raise ValueError(f"{self.name} must answer a query that only selects. Got another statement.")
            answer = self._connection.sql(query)
            read = getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader  # the name of older versions
            reader = read(ROWS)
            yield pyarrow.Table.from_batches([], reader.schema)
            for batch in reader:
                yield pyarrow.Table.from_batches([batch])
        except (self._duckdb.Error, pyarrow.ArrowException) as error:
            raise ValueError(f"{self.name} must answer a query that only selects. Got: {reason(error)}.") from None
