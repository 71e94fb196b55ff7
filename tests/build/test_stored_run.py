"""A training on a converted graph is that on its tables."""

import json

import numpy as np
import pyarrow.parquet as parquet
import pytest

from gpnn.build import begin_run, load_config, train_run
from gpnn.data.convert import ConvertSettings, convert
from gpnn.data.stored import open_stored

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
