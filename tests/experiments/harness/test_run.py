from dataclasses import replace

import pytest

import experiments.harness.run as run_module
from experiments.harness import Experiment, Results, run_experiment, write_report
from experiments.harness.kinds import KINDS
from experiments.harness.run import run_cell
from experiments.harness.spec import Cell, Line

TINY = {
    "device": "cpu",
    "data": {"name": "planted", "num_nodes": 60, "num_classes": 3, "num_features": 12, "label_rate": 0.2},
    "partition": {"k": 3},
    "schedule": {"rounds": 2},
    "model": {"hidden_channels": 4},
    "train": {"epochs": 2},
}
ROWS = (Line("gru", {"model": {"cell": "gru"}}), Line("linear", {"model": {"cell": "linear"}}))
TABLE = Experiment("tiny", "Tiny", ROWS, (Line("Planted"),), settings=TINY, seeds=2)


def test_a_tiny_table_from_end_to_end(tmp_path):
    results = Results.open(tmp_path / "cells" / "tiny.jsonl")
    seen = []
    run_experiment(TABLE, results, progress=lambda cell, finished, number: seen.append((finished, number)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    values = results.values(list(TABLE.cells()), "test_accuracy")
    assert len(values) == 4
    assert all(0 <= value <= 1 for value in values)
    files = write_report(TABLE, results, tmp_path, command="gpnn experiment tiny")
    assert {"tiny.md", "tiny.csv"} <= {file.name for file in files}
    assert "| gru | " in (tmp_path / "tiny.md").read_text()


def test_only_the_selected_cells_are_run(tmp_path, trained):
    results = Results.open(tmp_path / "tiny.jsonl")
    run_experiment(TABLE, results, only=TABLE.select(rows=["linear"], columns=["Planted"], seeds=1))
    assert trained == [("linear", 0, 2)]
    run_experiment(TABLE, results)
    assert len(trained) == 4


@pytest.mark.parametrize(("chosen", "what"), [({"rows": ["mlp"]}, "row"), ({"columns": ["mlp"]}, "column")])
def test_an_unknown_line_is_not_selected(chosen, what):
    with pytest.raises(ValueError, match=rf"A {what} of tiny must be one of: .*\. Got 'mlp'\."):
        TABLE.select(**chosen)


@pytest.fixture
def trained(monkeypatch):
    """The cells that were trained, without training any."""
    cells = []

    def pretend(cell: Cell, device: str | None) -> dict[str, float]:
        cells.append((cell.row, cell.seed, cell.settings["train"]["epochs"]))
        return {"test_accuracy": 0.5}

    monkeypatch.setattr(run_module, "run_cell", pretend)
    return cells


def test_a_device_of_the_caller_s_is_noted_and_leaves_a_cell_what_it_is(tmp_path, monkeypatch):
    asked = []

    def remember(settings, seed):
        asked.append(settings["device"])
        return {"test_accuracy": 0.5}

    monkeypatch.setitem(KINDS, "training", replace(KINDS["training"], run=remember))
    results = Results.open(tmp_path / "tiny.jsonl")
    run_experiment(TABLE, results, device="cuda:1", only=TABLE.select(seeds=1))
    run_experiment(TABLE, results)
    assert asked == ["cuda:1", "cuda:1", "cpu", "cpu"]
    assert [outcome.metrics.get("device") for outcome in results.outcomes.values()] == ["cuda:1", "cuda:1", None, None]


def test_a_finished_cell_is_not_run_again(tmp_path, trained):
    file = tmp_path / "tiny.jsonl"
    run_experiment(TABLE, Results.open(file))
    assert len(trained) == 4
    run_experiment(TABLE, Results.open(file))
    assert len(trained) == 4


def test_a_cell_with_a_changed_setting_is_run_again_and_no_other(tmp_path, trained):
    file = tmp_path / "tiny.jsonl"
    run_experiment(TABLE, Results.open(file))
    changed = Line("linear", {"model": {"cell": "linear"}, "train": {"epochs": 3}})
    run_experiment(
        Experiment("tiny", "Tiny", (ROWS[0], changed), TABLE.columns, settings=TINY, seeds=2), Results.open(file)
    )
    assert trained[4:] == [("linear", 0, 3), ("linear", 1, 3)]


def test_what_was_finished_before_a_failure_is_kept(tmp_path, monkeypatch):
    def fail_at_the_third(cell: Cell, device: str | None) -> dict[str, float]:
        if (cell.row, cell.seed) == ("gru", 1):
            raise RuntimeError("out of luck")
        return {"test_accuracy": 0.5}

    monkeypatch.setattr(run_module, "run_cell", fail_at_the_third)
    with pytest.raises(RuntimeError, match="out of luck"):
        run_experiment(TABLE, Results.open(tmp_path / "tiny.jsonl"))
    assert len(Results.open(tmp_path / "tiny.jsonl").outcomes) == 2


def test_a_search_does_not_keep_the_test_metrics(tmp_path):
    results = Results.open(tmp_path / "tiny.jsonl")
    run_experiment(replace(TABLE, measure="val_accuracy", seeds=1), results)
    for outcome in results.outcomes.values():
        assert "val_accuracy" in outcome.metrics
        assert not [name for name in outcome.metrics if name.startswith("test_")]


def test_a_wrong_setting_names_row_and_column():
    cell = Cell("gru", "Planted", 0, {**TINY, "train": {"epoch": 3}})
    with pytest.raises(ValueError, match=r"gru, Planted: .*epoch"):
        run_cell(cell)


def test_cells_do_not_follow_the_library_s_defaults(monkeypatch):
    from experiments.harness.plain import PLAIN

    settings = {**TINY, "model": {"hidden_channels": 4, "dropout": 0.0, "readout": "last", "cell": "gru"}}
    explicit = run_cell(Cell("gru", "Planted", 0, settings))
    assert PLAIN["model"]["dropout"] == 0.0
    assert run_cell(Cell("gru", "Planted", 0, TINY))["val_loss"] == explicit["val_loss"]


def test_cells_with_the_same_settings_are_run_once(tmp_path, trained):
    twins = Experiment("twins", "Twins", ROWS, (Line("One"), Line("Two")), settings=TINY, seeds=1)
    results = Results.open(tmp_path / "twins.jsonl")
    run_experiment(twins, results)
    assert [row for row, *_ in trained] == ["gru", "linear"]
    assert len(results.values(list(twins.cells()), "test_accuracy")) == 4


def test_the_cell_s_seed_stands_where_the_settings_ask_for_it():
    data = {**TINY["data"], "seed": "@seed"}
    cells = [Cell("gru", "Planted", seed, {**TINY, "data": data}) for seed in (0, 1)]
    given = [Cell("gru", "Planted", seed, {**TINY, "data": {**data, "seed": seed}}) for seed in (0, 1)]
    losses = [[run_cell(cell)["val_loss"] for cell in each] for each in (cells, given)]
    assert losses[0] == losses[1]
    assert cells[0].settings == cells[1].settings
