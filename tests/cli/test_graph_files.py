"""Graphs in one file, a saved HeteroData and a database, trained on and predicted."""

import sqlite3
from pathlib import Path

import pytest
import torch
from pyarrow import csv

SMALL = ["recipe=gated", "partition.k=2", "model.hidden_channels=8", "train.epochs=2"]


def write_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript("CREATE TABLE people (name, club, age); CREATE TABLE friends (a, b, since);")
        people = [(f"p{n}", ("chess", "choir")[n % 2], n / 2) for n in range(20)]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", people)
        friends = [(f"p{n}", f"p{(n + 2) % 20}", 2000 + n) for n in range(20)]
        connection.executemany("INSERT INTO friends VALUES (?, ?, ?)", friends)
    connection.close()


def write_hetero(path: Path) -> None:
    from torch_geometric.data import HeteroData

    data = HeteroData({"user": {"x": torch.eye(20), "y": torch.arange(20) % 2}, "item": {"num_nodes": 4}})
    data["user", "buys", "item"].edge_index = torch.stack([torch.arange(20), torch.arange(20) % 4])
    torch.save(data, path)


NAMES = ["data.nodes=people", "data.edges=SELECT a, b FROM friends WHERE since > 2003"]
COLUMNS = ["data.id=name", "data.label=club", "data.source=a", "data.target=b"]


@pytest.mark.parametrize(
    ("write", "name", "words", "rows"),
    [(write_database, "graph.sqlite", [*NAMES, *COLUMNS], 20), (write_hetero, "graph.pt", [], 24)],
    ids=["sqlite", "hetero"],
)
def test_a_run_and_its_predictions(gpnn, tmp_path, write, name, words, rows):
    write(tmp_path / name)
    described = gpnn("data", "describe", name, *words, "--json")
    assert described.exit_code == 0, described.stderr
    result = gpnn("train", name, *words, *SMALL, "--out", "run", "--quiet", "--no-report")
    assert result.exit_code == 0, result.stderr
    assert gpnn("predict", "run", name, "--out", "later.csv", "--quiet").exit_code == 0
    first, later = (csv.read_csv(tmp_path / path) for path in ("run/predictions.csv", "later.csv"))
    assert later.num_rows == rows
    assert later["prediction"].equals(first["prediction"])


def test_a_mistake_is_one_sentence(gpnn, tmp_path):
    write_database(tmp_path / "graph.sqlite")
    result = gpnn("train", "graph.sqlite", "--out", "run")
    assert result.exit_code == 2
    sentence = "must hold a table nodes (data.nodes names another, or a query that begins with SELECT)"
    assert sentence in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()
