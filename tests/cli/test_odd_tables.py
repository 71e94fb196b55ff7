"""Tables as spreadsheets and other programs write them, through every command."""

import gzip
from pathlib import Path

import pytest
from pyarrow import csv

NAMES = ["data.id=Navn", "data.source=from", "data.target=to", "data.label=klub"]
SMALL = ["recipe=gated", "partition.k=2", "model.hidden_channels=8", "train.epochs=3", "data.undirected=true"]


def write(folder: Path) -> None:
    """People in UTF-16 with semicolons and decimal commas; two kinds of edges, one compressed and one in Latin-1."""
    folder.mkdir()
    people = [f"bjørn{n};{('skak', 'kor')[n % 2]};{n},5" for n in range(20)]
    (folder / "nodes.csv").write_text("Navn;klub;højde\n" + "\n".join(people) + "\n", encoding="utf-16")
    edges = [f"bjørn{n}\tbjørn{(n + 2) % 20}" for n in range(20)]
    text = "from\tto\n" + "\n".join(edges) + "\n"
    (folder / "edges_venner.csv.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "edges_naboer.csv").write_text(text.replace("\t", "|"), encoding="latin-1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "klub")
    return tmp_path / "klub"


def test_they_are_described(gpnn, folder):
    result = gpnn("data", "describe", "klub", *NAMES)
    assert result.exit_code == 0, result.stderr
    assert "nodes.csv is not in UTF-8 and is read as UTF-16" in result.stderr
    assert "edges_naboer.csv is not in UTF-8 and is read as Latin-1" in result.stderr
    assert "the 2 files of edges are edge types: naboer, venner" in result.stderr
    assert "column højde: commas are decimal ones, 0,5 is read as 0.5" in result.stderr


def test_a_run_predicts_as_it_was_trained(gpnn, folder, tmp_path):
    result = gpnn("train", "klub", *NAMES, *SMALL, "--out", "run", "--quiet", "--no-report")
    assert result.exit_code == 0, result.stderr
    (folder / "nodes.csv").write_text((folder / "nodes.csv").read_text(encoding="utf-16"), encoding="latin-1")
    assert gpnn("predict", "run", "klub", "--out", "later.csv", "--quiet").exit_code == 0
    first, later = (csv.read_csv(tmp_path / name) for name in ("run/predictions.csv", "later.csv"))
    assert first["node"].to_pylist()[:2] == ["bjørn0", "bjørn1"]
    assert later["prediction"].equals(first["prediction"])
    assert not any(later["new"].to_pylist())


def test_they_are_converted(gpnn, folder):
    options = ["--id", "Navn", "--source", "from", "--target", "to", "--label", "klub"]
    result = gpnn("data", "convert", "klub/edges_*", "klub/nodes.csv", "graph", *options)
    assert result.exit_code == 0, result.stderr
    assert "note: nodes.csv is not in UTF-8 and is read as UTF-16" in result.stderr
    described = gpnn("data", "describe", "graph")
    assert "naboer" in described.output
    assert "commas are decimal ones" in described.stderr


def test_features_of_edges_are_refused_where_no_model_takes_them(gpnn, folder):
    (folder / "edges_naboer.csv").unlink()
    (folder / "edges_venner.csv.gz").unlink()
    (folder / "edges.csv").write_text("from;to;siden\nbjørn0;bjørn1;2020\n")
    result = gpnn("train", "klub", *NAMES, *SMALL, "data.edge_features=siden", "--out", "run")
    assert result.exit_code == 2
    assert "`data.edge_features` must be left out" in result.stderr
    assert not Path("run").exists()
