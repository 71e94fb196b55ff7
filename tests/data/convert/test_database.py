"""SQLite and DuckDB files become the same graph on the disk as tables of the same rows."""

import sqlite3
from pathlib import Path

import duckdb
import pytest

from gpnn.data import database
from gpnn.data.convert import convert
from gpnn.data.convert.edges import EdgeStage
from gpnn.data.stored import check_stored
from gpnn.data.tables.vocabulary import Choices

NODES = [(f"p{n}", "ab"[n % 2], n + 0.5) for n in range(7)]
EDGES = [(f"p{n}", f"p{n * 3 % 7}", "xy"[n % 2], n + 1) for n in range(7)]
TABLES = "CREATE TABLE nodes (id TEXT, label TEXT, size REAL); "
TABLES += "CREATE TABLE edges (source TEXT, target TEXT, type TEXT, weight INTEGER);"


def rows_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.npy")}


@pytest.fixture(params=["graph.sqlite", "graph.duckdb"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    connection = sqlite3.connect(path) if path.suffix == ".sqlite" else duckdb.connect(str(path))
    for statement in TABLES.split(";")[:2]:
        connection.execute(statement)
    connection.executemany("INSERT INTO nodes VALUES (?, ?, ?)", NODES)
    connection.executemany("INSERT INTO edges VALUES (?, ?, ?, ?)", EDGES)
    connection.commit()
    connection.close()
    return path


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    for name, head, rows in (("nodes", "id,label,size", NODES), ("edges", "source,target,type,weight", EDGES)):
        lines = [head, *(",".join(map(str, row)) for row in rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    convert(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "plain")
    return tmp_path / "plain"


def test_the_tables_of_a_database_are_converted(path, plain, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "ROWS", 3)
    stored = convert(path, None, tmp_path / "graph")
    assert rows_of(tmp_path / "graph") == rows_of(plain)
    assert set(check_stored(stored).values()) == {"ok"}
    assert sorted(each.name for each in tmp_path.glob("graph/unfinished*")) == []
    convert(tmp_path / "edges.csv", path, tmp_path / "half")
    assert rows_of(tmp_path / "half") == rows_of(plain)


def test_queries_and_no_nodes(path, tmp_path):
    query = "SELECT source AS a, target AS b FROM edges WHERE weight > 2"
    stored = convert(path, None, tmp_path / "graph", choices=Choices(source="a", target="b"), selected=("", query))
    assert (stored.num_nodes, stored.num_edges, stored.get("x")) == (6, 5, None)


def test_what_was_exported_is_kept(path, plain, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(EdgeStage, "write", lambda stage: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            convert(path, None, tmp_path / "graph")
    monkeypatch.setattr(database, "replace_file", lambda *arguments: pytest.fail("the table is there already"))
    convert(path, None, tmp_path / "graph")
    assert rows_of(tmp_path / "graph") == rows_of(plain)


def test_values_of_several_types(tmp_path, monkeypatch):
    """SQLite admits any value in any column, and only the last rows may show it."""
    monkeypatch.setattr(database, "ROWS", 2)
    with sqlite3.connect(tmp_path / "odd.db") as connection:
        connection.execute("CREATE TABLE edges (source, target)")
        connection.executemany("INSERT INTO edges VALUES (?, ?)", [(1, 2), (2, 3), (3, 1), ("eve", 1)])
    connection.close()
    stored = convert(tmp_path / "odd.db", None, tmp_path / "graph", selected=("", "edges"))
    assert (stored.num_nodes, stored.num_edges) == (4, 4)


def test_mistakes(path, tmp_path):
    with pytest.raises(ValueError, match=r"must hold a table people \(--nodes names another, or a query"):
        convert(path, None, tmp_path / "graph", selected=("people", "edges"))
    with pytest.raises(ValueError, match=r"must answer a query that only selects\. Got"):
        convert(path, None, tmp_path / "graph", selected=("nodes", "WITH a AS (SELECT 1) DELETE FROM edges"))
    (tmp_path / "text.db").write_text("not a database")
    with pytest.raises(ValueError, match=r"^text\.db must be a database of SQLite or DuckDB\. Got"):
        convert(tmp_path / "text.db", None, tmp_path / "graph")
    convert(path, None, tmp_path / "graph")
    assert not (tmp_path / "graph" / "unfinished").exists()


def test_a_mistake_in_a_row_names_database_table_and_row(path, tmp_path):
    query = "SELECT source, 'zoe' AS target FROM edges"
    with pytest.raises(ValueError, match=rf"^{path.name}\.edges\.parquet, row 0 .*column target: must be an id of "):
        convert(path, None, tmp_path / "graph", selected=("nodes", query))
