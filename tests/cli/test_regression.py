"""A number to predict on the command line: found in the tables, trained, predicted, described and reported."""

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv, parquet

from tests.oracle.number_graph import number_graph

SMALL = ["model.hidden_channels=8", "train.epochs=25", "partition.k=3", "schedule.rounds=2"]


def write_tables(folder: Path, *, whole: bool = False) -> Path:
    """The tables of a small graph of numbers; a quarter of them are unknown."""
    data = number_graph(160, unit=100.0)
    folder.mkdir()
    numbers = [f"{y:.0f}" if whole else f"{y:.3f}" for y in data.y.tolist()]
    rows = [
        ",".join([f"n{node}", "" if node % 4 == 3 else number, *(f"{x:.4f}" for x in features)])
        for node, (number, features) in enumerate(zip(numbers, data.x.tolist()))
    ]
    (folder / "nodes.csv").write_text("id,price," + ",".join("abcdefgh") + "\n" + "\n".join(rows) + "\n")
    edges = [f"n{a},n{b}" for a, b in data.edge_index.T.tolist()]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    return folder


def test_from_tables_to_predictions_and_a_report(gpnn, tmp_path):
    pytest.importorskip("plotly")
    folder = write_tables(tmp_path / "houses")
    result = gpnn("train", folder, "data.label=price", *SMALL, "--out", "run")
    assert result.exit_code == 0, result.stderr
    assert "a number per node" in result.stderr
    assert "test R²" in result.stdout
    assert "test MAE" in result.stdout
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["task"], metrics["metric"]) == ("regression", "r2")
    assert metrics["test_r2"] > 0.5
    rows = parquet.read_table(tmp_path / "run" / "predictions.parquet").to_pylist()
    assert list(rows[0]) == ["node", "prediction", "low", "high", "labelled", "label", "split", "subgraph"]
    assert all(row["low"] <= row["prediction"] <= row["high"] for row in rows)
    assert np.std([row["prediction"] for row in rows]) > 30  # in the unit of the table
    assert "Predicted and true" in (tmp_path / "run" / "report.html").read_text()
    assert gpnn("predict", "run", "--out", "again.csv").exit_code == 0
    again = csv.read_csv(tmp_path / "again.csv").to_pylist()
    assert [row["prediction"] for row in again] == pytest.approx([row["prediction"] for row in rows])
    assert gpnn("report", "run", "--out", "second.html").exit_code == 0


def test_whole_numbers_are_a_regression_where_the_user_says_so(gpnn, tmp_path):
    folder = write_tables(tmp_path / "houses", whole=True)
    refused = gpnn("train", folder, "data.label=price", *SMALL, "--out", "run")
    assert (refused.exit_code, (tmp_path / "run").exists()) == (2, False)
    assert "data.task=regression" in refused.stderr
    words = ["data.label=price", "data.task=regression", *SMALL, "train.metric=mae"]
    assert gpnn("train", folder, *words, "--out", "run", "--no-report").exit_code == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["task"], metrics["metric"]) == ("regression", "mae")
    resumed = gpnn("train", "--resume", "run")
    assert resumed.exit_code == 0


def test_shards_hold_numbers(gpnn, tmp_path):
    """A folder of shards gives what the whole graph gives; a shard of whole numbers is a regression all the same."""
    folder = write_tables(tmp_path / "houses", whole=True)
    data = [folder, "data.label=price", "data.task=regression"]
    parted = gpnn("partition", *data, "-k", "3", "--shards", "2", "--out", "shards")
    assert parted.exit_code == 0, parted.stderr
    words = ["model.hidden_channels=8", "train.epochs=10", "schedule.rounds=2", "--no-report"]
    for source, out in (([tmp_path / "shards"], "one"), ([*data, "partition.k=3"], "other")):
        result = gpnn("train", *source, *words, "--out", out)
        assert result.exit_code == 0, result.stderr
    one, other = (json.loads((tmp_path / out / "metrics.json").read_text()) for out in ("one", "other"))
    assert one["task"] == "regression"
    assert one["test_mae"] == pytest.approx(other["test_mae"], rel=1e-3)
    assert one["test_coverage"] == pytest.approx(other["test_coverage"], abs=0.05)


def test_describe_and_mistakes(gpnn, tmp_path):
    folder = write_tables(tmp_path / "houses")
    described = json.loads(gpnn("data", "describe", folder, "data.label=price", "--json").stdout)
    assert described["numbers"]["deviation"] == pytest.approx(100, rel=0.2)
    assert described["correlation of neighbours"] > 0.5
    wrong = gpnn("train", folder, "data.label=price", "train.metric=accuracy", *SMALL, "--out", "run")
    assert wrong.exit_code == 2
    assert "`metric` must be one of auto, loss, r2, mae, rmse, spearman. Got 'accuracy'." in wrong.stderr
