import json
from importlib import import_module

import numpy as np
import pytest
import torch
from pyarrow import parquet

from gpnn.build import build, create_run, load_config, open_run, train_run
from gpnn.data import load_dataset
from gpnn.distributed import SINGLE
from tests.oracle.multi_hot import multi_hot_graph
from tests.oracle.run_cases import begin_case, reads_case, resume_case, schedule_case


def test_recall_is_measured_where_there_are_gold_pairs(tmp_path):
    config = load_config(
        overrides=["data.name=diel_like", "data.scale=0.001", "model.hidden_channels=4", "train.epochs=1"]
    )
    built = build(config)
    run = create_run(built, tmp_path / "run")
    result = train_run(run, built)
    assert result.problem is None
    assert 0 <= run.read_metrics()["test_recall"] <= 1


def test_a_run_opens_with_the_objects_it_was_made_of(tmp_path):
    config = load_config(overrides=["data.name=planted", "data.num_nodes=60", "data.label_rate=0.3", "seed=4"])
    built = build(config)
    run, again = open_run(create_run(built, tmp_path / "run").path)
    assert again.config == built.config
    assert torch.equal(again.partition.labels, built.partition.labels)
    assert "gpnn" in json.loads(run.environment.read_text())


def test_several_labels_a_node(tmp_path):
    data = load_dataset(multi_hot_graph())
    words = ["model.cell=gru", "model.hidden_channels=8", "model.input_dropout=0", "model.drop_node=0", "partition.k=3"]
    words += ["schedule.normalization=phase", "schedule.self_loops=false", "model.dropout=0", "train.epochs=60"]
    words += ["train.learning_rate=0.01", "train.weight_decay=0", "train.consistency=0"]
    built = build(load_config(overrides=words), data)
    assert built.partition.num_parts == 3
    run = create_run(built, tmp_path / "run")
    train_run(run, built, report=False)  # whose explanations would read the graph that the configuration names
    metrics = run.read_metrics()
    assert metrics["metric"] == "roc_auc"
    assert min(metrics["test_roc_auc"], metrics["test_average_precision"], metrics["test_macro_f1"]) > 0.65
    table = parquet.read_table(run.predictions)
    probability = np.stack([table[f"p_{label}"].to_numpy() for label in range(4)], axis=1)
    assert probability.sum(1).max() > 1.5  # a probability a label, not a share
    right = ((probability > 0.5) == (data.y.numpy() > 0))[data.test_mask]
    assert metrics["test_accuracy"] == pytest.approx(right.mean())


@pytest.mark.parametrize("file", ["nodes.csv", "edges.csv", "parts.part.2"])
def test_a_run_does_not_go_on_with_other_data(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.csv").write_text("id,label,size,age\na,red,1,7\nb,blue,2,7\nc,red,3,8\nd,blue,4,9\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    (tmp_path / "parts.part.2").write_text("0\n0\n1\n1\n")
    run = create_run(build(load_config(overrides=["data.name=.", "partition.file=parts.part.2"])), tmp_path / "run")
    open_run(run.path)
    text = (tmp_path / file).read_text()
    changed = {
        "nodes.csv": ("d,blue,4", "d,blue,5"),
        "edges.csv": ("c,d", "c,c"),
        "parts.part.2": ("0\n0\n1", "0\n1\n1"),
    }
    (tmp_path / file).write_text(text.replace(*changed[file]))
    with pytest.raises(ValueError, match=r"must keep the data that it began with\. '.*' has changed since; train"):
        open_run(run.path)
    (tmp_path / file).write_text(text)
    open_run(run.path)


def test_a_run_of_a_version_that_kept_no_digest_opens(tmp_path):
    run = create_run(build(load_config(overrides=["data.name=planted", "data.num_nodes=60"])), tmp_path / "run")
    kept = json.loads(run.environment.read_text())
    assert len(kept.pop("data_sha256")) == 64
    run.environment.write_text(json.dumps(kept))
    open_run(run.path)


def test_a_trained_model_is_evaluated_once(tmp_path, monkeypatch):
    """Metrics, predictions and report are made of the same logits."""
    words = ["data.name=planted", "data.num_nodes=60", "data.label_rate=0.3", "train.epochs=2", "train.check_every=2"]
    built = build(load_config(overrides=[*words, "partition.k=2", "model.hidden_channels=8"]))
    forward, evaluations = built.model.forward, []

    def noting(*args, **kwargs):
        if not built.model.training:
            evaluations.append(1)
        return forward(*args, **kwargs)

    monkeypatch.setattr(built.model, "forward", noting)
    run = create_run(built, tmp_path / "run")
    result = train_run(run, built)
    assert run.report.exists()
    assert len(evaluations) == 2  # one for validation, one after training
    table = parquet.read_table(run.predictions)
    assert table["prediction"].to_pylist() == result.logits.argmax(1).tolist()


SMALL = ["data.name=planted", "data.num_nodes=120", "data.num_classes=3", "data.num_features=6", "data.label_rate=0.3"]
SMALL += ["partition.k=5", "model.hidden_channels=4", "train.epochs=6", "train.patience=0"]


def history(path):
    return [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]


def losses(path):
    return [record["loss"] for record in history(path)]


@pytest.mark.parametrize(
    "options", [[], ["model.input=both", "train.optimizer=lazy_adam"]], ids=["shared", "embedding"]
)
def test_a_run_goes_on_in_another_number_of_processes(processes, tmp_path, options):
    """The losses, the embeddings and the predictions are those of a run that one process trained to its end."""
    settings = [*SMALL, *options]
    assert begin_case(SINGLE, tmp_path / "whole", settings) == "epochs"
    assert begin_case(SINGLE, tmp_path / "more", settings, 3) == "interrupted"
    assert processes(begin_case, tmp_path / "fewer", settings, 3) == ["interrupted"] * 4
    before = {name: history(tmp_path / name) for name in ("more", "fewer")}
    assert processes(resume_case, tmp_path / "more") == ["epochs"] * 4
    assert resume_case(SINGLE, tmp_path / "fewer") == "epochs"
    wanted = parquet.read_table(tmp_path / "whole" / "predictions.parquet")
    for name in ("more", "fewer"):
        assert history(tmp_path / name)[:3] == before[name]  # it went on, times included
        assert losses(tmp_path / name) == pytest.approx(losses(tmp_path / "whole"), abs=1e-5)
        table = parquet.read_table(tmp_path / name / "predictions.parquet")
        assert table.column_names == wanted.column_names
        assert table["p_1"].to_pylist() == pytest.approx(wanted["p_1"].to_pylist(), abs=1e-4)


def test_rank_0_reads_the_configuration_for_all(processes, tmp_path):
    """Once; the others have its settings, sizes that it chose included."""
    settings = [*SMALL, "threads=3", "deterministic=true", "memory=64", "schedule.rounds=auto"]
    reads, configs, engines = zip(*processes(reads_case, tmp_path / "run", settings))
    assert reads == (1, 0, 0, 0)
    assert all(config == configs[0] for config in configs)
    assert configs[0] == (tmp_path / "run" / "config.toml").read_text().splitlines()
    assert {"threads = 3", "deterministic = true", "memory = 64.0", "rounds = 3"} <= set(configs[0])
    assert all(engine.estimate.peak > 0 for engine in engines)


def test_several_processes_hold_the_cut_of_a_large_graph(processes, tmp_path):
    """They say so, and the run goes on in one process under the same schedule."""
    results = processes(schedule_case, tmp_path / "run", [*SMALL, "schedule.rounds=4"])
    assert {result[:3] for result in results} == {("held_cut", 2, 4)}
    (note,) = results[0][3]
    assert note.startswith("schedule held_cut, 2 rounds of 2 steps, is taken for a large graph and 4 processes")
    assert open_run(tmp_path / "run")[1].config.schedule.name == "held_cut"


def test_settings_that_several_processes_refuse_leave_no_run(processes, tmp_path):
    with pytest.raises(AssertionError, match=r"`schedule` must be one of .*partitioned.* Got 'sequential'"):
        processes(begin_case, tmp_path / "run", [*SMALL, "schedule.name=sequential"])
    with pytest.raises(AssertionError, match="`disk` must be empty"):
        processes(begin_case, tmp_path / "run", [*SMALL, "disk=files"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cell", ["gru", "linear"])
def test_predictions_that_are_too_many_to_hold_are_made_by_pieces(tmp_path, monkeypatch, cell):
    """A graph of a hundred million nodes has no room for a probability of each of its classes."""
    config = load_config(overrides=[*SMALL, f"model.cell={cell}", "engine=streamed"])
    whole, pieces = (build(config) for _ in range(2))
    runs = [create_run(built, tmp_path / name) for built, name in ((whole, "whole"), (pieces, "pieces"))]
    train_run(runs[0], whole, report=False)
    monkeypatch.setattr(import_module("gpnn.train.trainer"), "MOST_LOGITS", 0)
    monkeypatch.setattr("gpnn.engine.rows.CPU_ROWS", 50)
    assert train_run(runs[1], pieces).logits is None
    tables = [parquet.read_table(run.predictions) for run in runs]
    names = tables[1].column_names
    assert "confidence" in names
    assert not [name for name in names if name.startswith("p_")]
    chosen = tables[0].select([name for name in names if name != "confidence"])
    assert chosen.equals(tables[1].drop_columns("confidence"))
    np.testing.assert_allclose(*(table["confidence"].to_numpy() for table in tables), rtol=1e-5)
    first, second = (run.read_metrics() for run in runs)
    assert second["test_loss"] == pytest.approx(first["test_loss"], rel=1e-5)
    assert second["val_accuracy"] == first["val_accuracy"]
