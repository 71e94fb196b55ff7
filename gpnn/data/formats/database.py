"""A graph in a database file of SQLite or DuckDB: two tables, views or queries, which are only read."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from gpnn.data.formats.duckdb_file import DuckDBFile
from gpnn.data.formats.sqlite_file import SQLiteFile
from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.binary import check_distinct, plain_table
from gpnn.data.tables.headers import find_column
from gpnn.data.tables.table import Table
from gpnn.data.tables.vocabulary import Choices, Vocabulary, split_list
from gpnn.storage.atomic import make_folder, replace_file
from gpnn.storage.read import check_ratio, digest_json

if TYPE_CHECKING:
    from torch_geometric.data import Data

ENDINGS = (".sqlite", ".sqlite3", ".duckdb", ".db")
# What a file of each kind holds at which byte.
MARKS: dict[tuple[int, bytes], Callable[[Path], SQLiteFile | DuckDBFile]] = {
    (0, b"SQLite format 3\0"): SQLiteFile,
    (8, b"DUCK"): DuckDBFile,
}
QUERY = re.compile(r"\s*(SELECT|WITH|FROM|VALUES)\s", re.IGNORECASE)


def database(
    path: str | Path,
    vocabulary: Vocabulary | None = None,
    *,
    nodes: str = "nodes",
    edges: str = "edges",
    id: str = "id",
    source: str = "source",
    target: str = "target",
    type: str = "type",
    weight: str = "weight",
    label: str = "label",
    edge_features: str = "",
    categorical: str = "",
    ignore: str = "",
    numbers: str = "standard",
    undirected: bool = False,
    task: str = "auto",
    seed: int = 0,
) -> Data:
    """The graph of two tables in a database file; other options are those of :func:`gpnn.data.tables.tables`.

    The file is opened for reading, extensions and other files are out of reach, and a query may only select.

    Args:
        path: a file of SQLite or DuckDB.
        vocabulary: of the graph that a model was trained on: columns, classes and edge types keep its meaning.
        nodes: a table or view, or a query that selects the nodes; "": the nodes that the edges name.
        edges: likewise of the edges.
        id, source, target, type, weight, label: what the columns are called.
        edge_features, categorical, ignore, numbers, undirected, task, seed: as of tables.

    Raises:
        ValueError: in one sentence that names the file, the table, the row, the column and the value.
    """
    choices = Choices(
        label, split_list(categorical), split_list(ignore), numbers, undirected, seed, vocabulary, task,
        id, source, target, type, weight, split_list(edge_features),
    )  # fmt: skip
    with _open(Path(path)) as file:
        rows = _read(file, "nodes", nodes) if nodes else None
        return assemble(rows, _read(file, "edges", edges), choices)


def _open(path: Path) -> SQLiteFile | DuckDBFile:
    with path.open("rb") as file:
        head = file.read(16)
    for (start, mark), kind in MARKS.items():
        if head[start:].startswith(mark):
            return kind(path)
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
    with _open(path) as file:
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
