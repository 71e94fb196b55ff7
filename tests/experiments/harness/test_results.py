import subprocess
import sys
from dataclasses import replace

import pytest

from experiments.harness.results import Results, mean_and_deviation
from experiments.harness.spec import Experiment, Line

TABLE = Experiment("some", "Some", (Line("a"),), (Line("One"),), {"train": {"epochs": 1}}, seeds=3)
CELLS = list(TABLE.cells())


def test_results_are_read_back_as_they_were_added(tmp_path):
    file = tmp_path / "cells" / "some.jsonl"
    results = Results.open(file)
    assert results.outcomes == {}
    for cell, value in zip(CELLS, (0.5, 0.75)):
        results.add(cell, {"test_accuracy": value, "stopped": "patience"})
    again = Results.open(file)
    assert again.outcomes == results.outcomes
    assert again.values(CELLS, "test_accuracy") == [0.5, 0.75]
    assert again.values(CELLS, "test_roc_auc") == []
    assert [path.name for path in file.parent.iterdir()] == ["some.jsonl"]


def test_a_cell_that_is_added_again_replaces_the_old(tmp_path):
    results = Results.open(tmp_path / "some.jsonl")
    results.add(CELLS[0], {"test_accuracy": 0.1})
    results.add(CELLS[0], {"test_accuracy": 0.2})
    assert Results.open(tmp_path / "some.jsonl").values(CELLS, "test_accuracy") == [0.2]


def test_the_deviation_is_the_sample_s():
    assert mean_and_deviation([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert mean_and_deviation([4.0]) == (pytest.approx(4.0), 0.0)


def test_cells_that_another_experiment_finished_are_adopted(tmp_path):
    other = Results.open(tmp_path / "other.jsonl")
    other.add(CELLS[0], {"test_accuracy": 0.5})
    other.add(CELLS[1], {"val_accuracy": 0.5})  # ran without its test metrics
    own = Results.open(tmp_path / "own.jsonl")
    own.adopt(TABLE)
    assert own.values(CELLS, "test_accuracy") == [0.5]
    assert Results.open(tmp_path / "own.jsonl").values(CELLS, "test_accuracy") == [0.5]


def test_a_search_adopts_no_test_metrics(tmp_path):
    Results.open(tmp_path / "other.jsonl").add(CELLS[0], {"val_accuracy": 0.5, "test_accuracy": 0.6, "test_loss": 1.0})
    own = Results.open(tmp_path / "own.jsonl")
    own.adopt(replace(TABLE, measure="val_accuracy"))
    assert [outcome.metrics for outcome in own.outcomes.values()] == [{"val_accuracy": 0.5}]


def test_metrics_of_training_nodes_are_kept_where_they_are_shown():
    metrics = {"test_accuracy": 1 / 3, "train_accuracy": 1.0, "train_loss": 0.1, "epochs": 123456789}
    assert TABLE.keep(metrics) == {"test_accuracy": 0.33333333, "epochs": 123456789}
    assert "train_accuracy" in replace(TABLE, also=("train_accuracy",)).keep(metrics)


def test_what_two_processes_add_is_kept(tmp_path):
    one, other = (Results.open(tmp_path / "some.jsonl") for _ in range(2))
    one.add(CELLS[0], {"test_accuracy": 0.1})
    other.add(CELLS[1], {"test_accuracy": 0.2})
    assert Results.open(tmp_path / "some.jsonl").values(CELLS, "test_accuracy") == [0.1, 0.2]


ADD = """
import sys
from pathlib import Path
from experiments.harness.results import Results
from experiments.harness.spec import Cell
results = Results.open(Path(sys.argv[1]))
print(flush=True)
sys.stdin.read(1)
for seed in range(40):
    results.add(Cell(sys.argv[2], "One", seed, {"name": sys.argv[2]}), {"test_accuracy": 0.5})
"""


@pytest.mark.thorough
def test_no_line_is_lost_when_two_processes_add_at_once(tmp_path):
    file = tmp_path / "some.jsonl"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    both = [subprocess.Popen([sys.executable, "-c", ADD, str(file), row], **pipes) for row in "ab"]
    for process in both:
        process.stdout.readline()
    for process in both:
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in both:
        process.communicate()
        assert process.returncode == 0
    assert len(Results.open(file).outcomes) == 80
    assert [path.name for path in tmp_path.iterdir()] == ["some.jsonl"]


def test_what_was_not_calibrated_is_the_same_before(tmp_path):
    results = Results.open(tmp_path / "some.jsonl")
    results.add(CELLS[0], {"test_accuracy": 0.8, "test_accuracy_before": 0.7})
    results.add(CELLS[1], {"test_accuracy": 0.9})
    assert results.values(CELLS, "test_accuracy_before") == [0.7, 0.9]
    assert results.values(CELLS, "val_loss_before") == []
