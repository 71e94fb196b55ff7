"""Database files: the graph of two tables or queries, and nothing that a hostile file or query could do."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import gpnn

TABLES = """
CREATE TABLE nodes (id TEXT, label TEXT, age REAL);
INSERT INTO nodes VALUES ('anna', 'red', 1.5), ('bert', 'blue', 2.5), ('cleo', NULL, NULL);
CREATE TABLE edges (source TEXT, target TEXT, type TEXT, weight REAL);
INSERT INTO edges VALUES ('anna', 'bert', 'x', 1.0), ('cleo', 'anna', 'y', 0.5);
CREATE TABLE "odd ""name" (a INTEGER, b INTEGER, since TEXT);
INSERT INTO "odd ""name" VALUES (1, 2, 'may'), (2, 3, 'june');
"""


def sqlite_file(folder: Path, script: str) -> Path:
    with sqlite3.connect(folder / "graph.sqlite") as connection:
        connection.executescript(script)
    connection.close()
    return folder / "graph.sqlite"


def duckdb_file(folder: Path, script: str) -> Path:
    with duckdb.connect(str(folder / "graph.duckdb")) as connection:
        connection.execute(script)
    return folder / "graph.duckdb"


@pytest.fixture(params=[sqlite_file, duckdb_file], ids=["sqlite", "duckdb"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    return lambda script=TABLES: request.param(tmp_path, script)


def test_two_tables_are_a_graph(make):
    data = gpnn.load_dataset(make())
    assert data.node_name.tolist() == ["anna", "bert", "cleo"]
    assert (data.y.tolist(), data.class_names) == ([1, 0, -1], ["blue", "red"])
    assert data.feature_names == ["age", "age is missing"]
    assert (data.edge_index.tolist(), data.edge_weight.tolist()) == ([[0, 2], [1, 0]], [1.0, 0.5])
    assert data.edge_type_names == ["x", "y"]


def test_queries_and_names(make):
    path = make()
    edges = "SELECT source AS 'from', target FROM edges WHERE weight < 1"
    data = gpnn.load_dataset(path, nodes="SELECT id, age FROM nodes", edges=edges.replace("'", '"'), source="from")
    assert data.edge_index.tolist() == [[2], [0]]
    assert data.get("y") is None
    odd = gpnn.load_dataset(path, nodes="", edges='odd "name', source="a", target="b", ignore="since")
    assert odd.node_name.tolist() == [1, 2, 3]


def test_a_view_is_a_table(make):
    data = gpnn.load_dataset(make(TABLES + "CREATE VIEW pairs AS SELECT source, target FROM edges;"), edges="pairs")
    assert data.num_edges == 2


def test_types_are_those_of_the_values(make):
    script = "CREATE TABLE edges (source BIGINT, target BIGINT); INSERT INTO edges VALUES (5, 7), (7, 9);"
    assert gpnn.load_dataset(make(script), nodes="").node_name.tolist() == [5, 7, 9]


def test_mistakes(make):
    path = make()
    name = path.name.replace(".", r"\.")
    with pytest.raises(
        ValueError, match=rf"^{name} must hold a table people \(data\.nodes names another, .*Got .*nodes"
    ):
        gpnn.load_dataset(path, nodes="people")
    with pytest.raises(ValueError, match=rf"^{name}, edges must have a column start\. Got source, target"):
        gpnn.load_dataset(path, source="start")
    bad = "SELECT source, 'zoe' AS target FROM edges"
    with pytest.raises(ValueError, match=rf"^{name}, edges, row 0 \(from 0\), column target: must be an id of "):
        gpnn.load_dataset(path, edges=bad)
    with pytest.raises(ValueError, match=rf"^{name} must answer a query that only selects\. Got: .*nowhere"):
        gpnn.load_dataset(path, nodes="SELECT * FROM nowhere")


def test_a_file_that_is_not_a_database(tmp_path: Path):
    (tmp_path / "graph.db").write_text("id,label\n")
    with pytest.raises(ValueError, match=r"graph\.db must be a database of SQLite or DuckDB\. Got a file"):
        gpnn.load_dataset(tmp_path / "graph.db")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1; DROP TABLE nodes",
        "WITH a AS (SELECT 1) DELETE FROM nodes",
        "WITH a AS (SELECT 1) INSERT INTO nodes SELECT 'x', 'y', 1",
        "SELECT load_extension('evil')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
    ],
)
def test_a_query_only_selects(make, query: str):
    path = make()
    before = path.read_bytes()
    with pytest.raises(ValueError, match="must answer a query that only selects"):
        gpnn.load_dataset(path, nodes=query)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def endless(path: Path, *, spin: bool = False) -> Any:
    """Numbers without end in the place of the nodes, or a count of them that never comes."""
    numbers = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n"
    ten = " CROSS JOIN ".join(f"nodes n{number}" for number in range(30))
    return gpnn.load_dataset(path, nodes=f"SELECT count(*) AS id FROM {ten}" if spin else numbers)


def test_sqlite_does_not_run_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = sqlite_file(tmp_path, TABLES)
    with pytest.raises(ValueError, match=r"Got: not authorized"):
        endless(path)
    monkeypatch.setattr("gpnn.data.database.STEPS", 10**7)
    with pytest.raises(ValueError, match=r"Got: interrupted"):
        endless(path, spin=True)


@pytest.mark.thorough
def test_sqlite_takes_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpnn.storage.read.SMALL", 1 << 20)
    monkeypatch.setattr("gpnn.storage.read.EXPANSION", 10)
    monkeypatch.setattr("gpnn.data.database.BYTES", 1 << 16)
    path = sqlite_file(tmp_path, TABLES)
    joined = " CROSS JOIN ".join(f"nodes n{number}" for number in range(12))
    with pytest.raises(ValueError, match=r"must unpack to at most"):
        gpnn.load_dataset(path, nodes=f"SELECT n0.id, printf('%9999s', '') AS t FROM {joined}")
    with pytest.raises(ValueError, match=r"Got: string or blob too big"):
        gpnn.load_dataset(path, nodes="SELECT zeroblob(99999999) AS id FROM nodes")


@pytest.mark.thorough  # measured memory
def test_duckdb_takes_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpnn.data.database.memory_limit", lambda: 200 << 20)
    monkeypatch.setattr("gpnn.storage.read.memory_limit", lambda: 1 << 20)
    path = duckdb_file(tmp_path, TABLES)
    with pytest.raises(ValueError, match=r"must unpack to at most"):
        endless(path)


@pytest.mark.thorough  # measured memory
def test_a_small_duckdb_file_takes_little_memory(tmp_path: Path):
    path = duckdb_file(tmp_path, TABLES)
    with pytest.raises(ValueError, match=r"^graph\.duckdb must unpack to at most 1,000 times its size\. Got"):
        gpnn.load_dataset(path, nodes="SELECT range AS id FROM range(1000000000000)")


def test_duckdb_may_fail_while_it_answers(tmp_path: Path):
    query = "SELECT CASE WHEN range > 200000 THEN error('late') ELSE range END AS id FROM range(300000)"
    with pytest.raises(ValueError, match=r"^graph\.duckdb must answer a query that only selects\. Got: .*late"):
        gpnn.load_dataset(duckdb_file(tmp_path, TABLES), nodes=query)


def test_sqlite_values_that_are_no_text(tmp_path: Path):
    path = sqlite_file(
        tmp_path, "CREATE TABLE edges (source BLOB, target BLOB); INSERT INTO edges VALUES (x'ff', x'00');"
    )
    with pytest.raises(ValueError, match=r"column source: must hold text or numbers\. Got BLOB\."):
        gpnn.load_dataset(path, nodes="")


def test_sqlite_columns_may_mix_types(tmp_path: Path):
    script = "CREATE TABLE edges (source, target); INSERT INTO edges VALUES (1, 'a'), ('b', 1);"
    assert gpnn.load_dataset(sqlite_file(tmp_path, script), nodes="").node_name.tolist() == ["1", "a", "b"]


def test_sqlite_with_a_log_of_changes(tmp_path: Path):
    path = sqlite_file(tmp_path, "PRAGMA journal_mode = WAL;" + TABLES)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO nodes VALUES ('dora', NULL, 3.0)")
    connection.commit()
    assert gpnn.load_dataset(path).num_nodes == 4
    connection.close()


def test_a_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = duckdb_file(tmp_path, TABLES)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(ValueError, match=r"The file graph\.duckdb needs duckdb: pip install"):
        gpnn.load_dataset(path)
