"""A training on a converted graph is that on its tables."""

import json
from importlib import import_module

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from pyarrow import concat_tables

from gpnn.build import (
    begin_run,
    build_data,
    load_config,
    load_run_config,
    open_run,
    predict_tables,
    read_trained,
    report_run,
    train_run,
)
from gpnn.data.convert import ConvertSettings, convert
from gpnn.data.stored import open_stored
from gpnn.run.folder import RunFolder

SETTINGS = ["train.epochs=4", "model.hidden_channels=8", "partition.k=4", "model.dropout=0.0", "seed=2"]


def write_tables(folder, *, undirected: bool):
    """Tables whose edges are in the order of rows, so that both graphs have the same edges in the same order."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 80, (2, 400))
    if undirected:
        src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
    pairs = sorted(set(zip(dst.tolist(), src.tolist())))
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{s},{d}\n" for d, s in pairs))
    split = ["train", "train", "val", "test"]
    rows = [f"n{n},{n % 3},{split[n % 4]},{n % 3 + rng.normal():.3f},{rng.normal():.3f}\n" for n in range(80)]
    (folder / "nodes.csv").write_text("id,label,split,first,second\n" + "".join(rows))
    text = (folder / "edges.csv").read_text().splitlines()
    named = [",".join(f"n{end}" for end in line.split(",")) for line in text[1:]]
    (folder / "edges.csv").write_text("\n".join([text[0], *named]) + "\n")


def train(source, out, *settings):
    run, built = begin_run(lambda: load_config(None, [f"data.name={source}", *SETTINGS, *settings]), out)
    train_run(run, built, report=False)
    metrics = json.loads(run.metrics.read_text())
    history = [json.loads(line)["loss"] for line in run.history.read_text().splitlines()]
    return metrics, history, parquet.read_table(run.predictions).to_pydict()


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        ("engine=fused",),
        ("engine=streamed", "model.cell=gru"),
        ("schedule.name=synchronous", "model.cell=gru"),
        ("schedule.name=held_cut", "schedule.rounds=2", "partition.method=refined", "engine=streamed"),
        ("schedule.name=held_cut", "schedule.rounds=1", "model.cell=gru", "engine=streamed_features"),
        ("schedule.rounds=3", "model.cell=gru", "engine=streamed_host"),
    ],
    ids=["linear", "gru", "synchronous", "held_cut", "features on the host", "states on the host"],
)
def test_training_equals_that_of_tables(tmp_path, undirected, settings):
    write_tables(tmp_path, undirected=undirected)
    convert(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "graph")
    assert open_stored(tmp_path / "graph").symmetric == undirected
    found, wanted = (train(tmp_path / name, tmp_path / f"run{name}", *settings) for name in ("graph", "."))
    assert found[0].keys() == wanted[0].keys()
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)
    for name in ("num_nodes", "num_edges", "num_messages", "num_updates", "num_parts", "num_parameters"):
        assert found[0][name] == wanted[0][name], name
    assert found[2].keys() == wanted[2].keys()
    assert found[2]["node"] == wanted[2]["node"]
    assert found[2].get("subgraph") == wanted[2].get("subgraph")


def test_labels_and_numbers(tmp_path):
    rng = np.random.default_rng(1)
    np.save(tmp_path / "edges.npy", rng.integers(0, 60, (2, 300)))
    np.save(tmp_path / "x.npy", rng.normal(size=(60, 5)).astype(np.float32))
    np.save(tmp_path / "several.npy", rng.integers(0, 2, (60, 3)))
    np.save(tmp_path / "numbers.npy", rng.normal(size=60))
    for name, metric in (("several", "val_roc_auc"), ("numbers", "val_r2")):
        paths = {"features": tmp_path / "x.npy", "labels": tmp_path / f"{name}.npy"}
        convert(tmp_path / "edges.npy", None, tmp_path / name, settings=ConvertSettings(undirected=True), **paths)
        metrics, losses, _ = train(tmp_path / name, tmp_path / f"run-{name}", "engine=streamed")
        assert metric in metrics, metrics
        assert losses[-1] < losses[0]


class Stop:
    """Ends a training after an epoch."""

    def start(self, history):
        return False

    def epoch(self, record):
        return record["epoch"] == 2


@pytest.mark.parametrize("engine", ["streamed", "streamed_features", "streamed_host"])
def test_a_resumed_run_ends_at_the_same_bits(tmp_path, engine):
    write_tables(tmp_path, undirected=True)
    convert(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "graph")
    settings = (f"engine={engine}", "model.cell=gru", "schedule.name=held_cut", "schedule.rounds=3")
    wanted = train(tmp_path / "graph", tmp_path / "whole", *settings)
    words = [f"data.name={tmp_path / 'graph'}", *SETTINGS, *settings]
    run, built = begin_run(lambda: load_config(None, words), tmp_path / "parts")
    assert train_run(run, built, [Stop()], report=False).stopped == "interrupted"
    run, built = open_run(tmp_path / "parts")
    train_run(run, built, report=False)
    history = [json.loads(line)["loss"] for line in run.history.read_text().splitlines()]
    assert history == wanted[1]
    assert parquet.read_table(run.predictions).to_pydict() == wanted[2]


@pytest.mark.parametrize("limit", ["MAPPED_LOGITS", "MOST_LOGITS"])
def test_predictions_of_many_nodes_are_made_and_written_in_pieces(tmp_path, monkeypatch, limit):
    """From a mapped file, or without ever holding the probabilities of all classes; then the same by `predict`."""
    write_tables(tmp_path, undirected=True)
    convert(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "graph")
    settings = ("engine=streamed", "model.cell=gru")
    wanted = train(tmp_path / "graph", tmp_path / "whole", *settings)
    for name, value in {"train.trainer": limit, "build.finish": "TABLE_ROWS", "engine.rows": "CPU_ROWS"}.items():
        monkeypatch.setattr(import_module(f"gpnn.{name}"), value, 7 if value.endswith("ROWS") else 0)
    found = train(tmp_path / "graph", tmp_path / "pieces", *settings)
    assert found[2].keys() == {name for name in wanted[2] if limit == "MAPPED_LOGITS" or not name.startswith("p_")}
    for name, values in found[2].items():
        if isinstance(values[0], float):
            np.testing.assert_allclose(values, wanted[2][name], rtol=1e-5, atol=1e-6)
        else:
            assert values == wanted[2][name], name
    assert parquet.read_metadata(tmp_path / "pieces" / "predictions.parquet").num_rows == 80
    for name, value in wanted[0].items():
        if name.startswith(("val_", "test_", "train_")):
            assert found[0][name] == pytest.approx(value, rel=1e-5), name
    run = RunFolder.open(tmp_path / "pieces")
    again, config = read_trained(run), load_run_config(run)
    data = build_data(config)
    tables = list(predict_tables(again, config, data))
    assert len(tables) == 12
    assert concat_tables(tables)["prediction"].to_pylist() == wanted[2]["prediction"]


@pytest.mark.parametrize(
    "settings",
    [
        ("engine=fused",),
        ("engine=streamed", "model.cell=gru", "model.concat=features"),
        ("schedule.name=held_cut", "schedule.rounds=1", "model.cell=gru", "engine=streamed_features"),
    ],
    ids=["linear", "features beside the state", "features on the host"],
)
def test_features_of_8_bits_stay_as_they_are_where_they_are_many(tmp_path, monkeypatch, settings):
    """Trained and predicted as in float32, in which fewer are read; a file that would change them is another graph."""
    write_tables(tmp_path, undirected=True)
    convert(tmp_path / "edges.csv", tmp_path / "nodes.csv", tmp_path / "graph", settings=ConvertSettings(dtype="int8"))
    settings = (*settings, "data.scale_features=none")
    wanted = train(tmp_path / "graph", tmp_path / "wide", *settings)
    monkeypatch.setattr(import_module("gpnn.data.stored"), "WIDENED", 0)
    monkeypatch.setattr("gpnn.pipeline.float_features", None)  # nothing makes a copy of them
    found = train(tmp_path / "graph", tmp_path / "narrow", *settings)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-4)
    np.testing.assert_allclose(found[2]["confidence"], wanted[2]["confidence"], rtol=1e-3)
    run = RunFolder.open(tmp_path / "narrow")
    trained, config = read_trained(run), load_run_config(run)
    data = build_data(config)
    assert (data.x.dtype, data.x_scale.shape) == (torch.int8, (data.x.shape[1],))
    again = concat_tables(predict_tables(trained, config, data))
    assert again["prediction"].to_pylist() == found[2]["prediction"]
    if "engine=fused" in settings:
        report_run(run.path)  # with what carried some predictions
        assert run.report.stat().st_size
    monkeypatch.setattr(import_module("gpnn.data.stored"), "WIDENED", 1 << 31)
    wide = concat_tables(predict_tables(trained, config, build_data(config)))  # what was learned has the user's units
    np.testing.assert_allclose(wide["confidence"], again["confidence"], rtol=1e-3)
