"""A run can be stopped and kept, and goes on, be it for longer."""

import json
import shutil
import signal
import tomllib
from dataclasses import replace

import pytest
from pyarrow import csv, parquet
from safetensors.torch import load_file

from gpnn.build import run as build_run
from gpnn.race import halving
from gpnn.recipes import RECIPES
from gpnn.run.folder import HistoryFile


def stop_after(monkeypatch, epoch: int, number: int = signal.SIGINT) -> None:
    """Let a signal arrive in an epoch of the run's training."""
    append = HistoryFile.epoch

    def signalled(self, record):
        append(self, record)
        if record["epoch"] == epoch:
            signal.raise_signal(number)

    monkeypatch.setattr(HistoryFile, "epoch", signalled)


def metrics_of(folder) -> dict:
    return json.loads((folder / "metrics.json").read_text())


def weights_of(folder) -> dict:
    return {name: tensor.tolist() for name, tensor in load_file(folder / "model.safetensors").items()}


def test_a_stopped_run_predicts_and_reports(gpnn, tiny, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        result = gpnn("train", *tiny, "--out", "run")
    assert result.exit_code == 130
    assert result.stdout == ""
    assert "stopping after this epoch" in result.stderr
    best = f"epoch {metrics_of(tmp_path / 'run')['best_epoch']}, validation accuracy"
    assert f"gpnn: stopped. `gpnn predict` and `gpnn report` take the best so far: {best}" in result.stderr
    assert result.stderr.endswith("Continue with: gpnn train --resume run\n")
    assert (metrics_of(tmp_path / "run")["stopped"], metrics_of(tmp_path / "run")["epochs"]) == ("interrupted", 4)
    assert gpnn("predict", "run", "--out", "a.csv", "-q").exit_code == 0
    trained = parquet.read_table(tmp_path / "run" / "predictions.parquet")
    assert csv.read_csv(tmp_path / "a.csv")["prediction"].to_pylist() == trained["prediction"].to_pylist()
    assert gpnn("report", "run", "-q").exit_code == 0
    assert "majority" in json.loads((tmp_path / "run" / "baselines.json").read_text())
    assert gpnn("train", "--resume", "run", "-q", "--no-report").exit_code == 0
    assert not (tmp_path / "run" / "report.html").exists()  # it was of the stopped run
    assert gpnn("train", *tiny, "--out", "whole", "-q", "--no-report").exit_code == 0
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")
    assert metrics_of(tmp_path / "run")["stopped"] == "epochs"


@pytest.mark.thorough
def test_a_signal_after_the_training_stops_at_once(gpnn, tiny, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(build_run, "write_run_report", lambda *rest: signal.raise_signal(signal.SIGINT))
        result = gpnn("train", *tiny, "--out", "run")
    assert result.exit_code == 130
    assert "stopping after this epoch" not in result.stderr
    assert result.stderr.endswith("Continue with: gpnn train --resume run\n")
    assert metrics_of(tmp_path / "run")["stopped"] == "epochs"
    assert not (tmp_path / "run" / "report.html").exists()
    assert gpnn("train", "--resume", "run", "-q").exit_code == 0
    assert (tmp_path / "run" / "report.html").exists()


def test_a_finished_run_goes_on_for_longer(gpnn, tiny, tmp_path):
    assert gpnn("train", *tiny, "--out", "run", "-q", "--no-report").exit_code == 0
    result = gpnn("train", "--resume", "run", "train.epochs=9", "train.patience=7", "--no-report")
    assert result.exit_code == 0, result.output
    assert "training: continuing after epoch 6" in result.stderr
    assert gpnn("train", *tiny, "train.epochs=9", "--out", "whole", "-q", "--no-report").exit_code == 0
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")
    train = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["train"]
    assert (train["epochs"], train["patience"]) == (9, 7)
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["settings"]["train.epochs"] == 9
    assert gpnn("train", "--resume", "run").exit_code == 0  # and is finished again


def test_fewer_epochs_end_a_stopped_run_where_it_is(gpnn, tiny, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 4, signal.SIGTERM)
        assert gpnn("train", *tiny, "--out", "run", "-q").exit_code == 143
    assert gpnn("train", "--resume", "run", "train.epochs=1", "-q", "--no-report").exit_code == 0
    assert (metrics_of(tmp_path / "run")["stopped"], metrics_of(tmp_path / "run")["epochs"]) == ("epochs", 4)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train.epochs=6"], "`train.epochs` must be more than the 6 that are done. Got 6."),
        (["train.epochs=many"], "`train.epochs` must be an integer. Got 'many'."),
        (["seed=3"], "only train.epochs, train.patience and budget may change. Got seed."),
        (["data.num_nodes=3"], "only train.epochs, train.patience and budget may change. Got data.num_nodes."),
        (["epoch=9"], "`epoch` is not a setting. Did you mean `train.epochs`?"),
        (["budget=1h"], "`budget` is of a race that is not over."),
        (["cora", "train.epochs=9"], "`--resume` must stand alone, or with train.epochs=…"),
    ],
)
def test_what_may_not_change_is_refused(gpnn, finished, tmp_path, words, sentence):
    shutil.copytree(finished, tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    result = gpnn("train", "--resume", "run", *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_patience_that_ended_a_run_must_grow(gpnn, tiny, tmp_path):
    words = [*tiny, "train.epochs=60", "train.patience=1", "--out", "run", "-q", "--no-report"]
    assert gpnn("train", *words).exit_code == 0
    done = metrics_of(tmp_path / "run")["epochs"]
    result = gpnn("train", "--resume", "run", "train.epochs=80")
    assert result.exit_code == 2
    assert f"Patience ended this run after epoch {done}: train.patience must be more than 1" in result.stderr
    assert gpnn("train", "--resume", "run", "train.patience=2", "-q", "--no-report").exit_code == 0
    assert metrics_of(tmp_path / "run")["epochs"] > done


@pytest.fixture
def short_recipes(monkeypatch):
    for name, recipe in RECIPES.items():
        monkeypatch.setitem(RECIPES, name, replace(recipe, train=replace(recipe.train, epochs=8, patience=0)))


def stop_the_race(monkeypatch, number: int) -> None:
    """Let a signal arrive in the first epoch of a training of the race."""
    took, trainings = halving._take_rung, []

    def signalled(*arguments):
        trainings.append(arguments)
        callbacks = arguments[-1]
        if len(trainings) == number:
            callbacks = [*callbacks, Raise()]
        return took(*arguments[:-1], callbacks)

    monkeypatch.setattr(halving, "_take_rung", signalled)


class Raise:
    def start(self, history):
        signal.raise_signal(signal.SIGINT)

    def epoch(self, record):
        """The signal has come already."""


@pytest.mark.thorough
@pytest.mark.parametrize("training", [2, 4])
def test_a_run_stopped_in_its_race_has_the_best(gpnn, tiny_graph, tmp_path, short_recipes, monkeypatch, training):
    words = ["train", *tiny_graph, "seed=1", "-q", "--no-report"]
    with monkeypatch.context() as patch:
        stop_the_race(patch, training)
        assert gpnn(*words, "--out", "run").exit_code == 130
    race = json.loads((tmp_path / "run" / "race.json").read_text())
    assert race["winner"] is None
    kept = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["recipe"]
    metrics = metrics_of(tmp_path / "run")
    assert metrics["stopped"] == "interrupted"
    assert metrics["val_accuracy"] >= max(row["value"] for row in race["record"]["rows"])
    assert kept in race["record"]["costs"]
    assert gpnn("predict", "run", "--out", "a.csv", "-q").exit_code == 0
    refused = gpnn("train", "--resume", "run", "train.epochs=9")
    assert "The race of this run is not over: until then `budget` may change" in refused.stderr
    assert gpnn("train", "--resume", "run", "budget=20m", "-q", "--no-report").exit_code == 0
    assert gpnn(*words, "--out", "whole").exit_code == 0
    ended, undisturbed = (json.loads((tmp_path / name / "race.json").read_text()) for name in ("run", "whole"))
    assert ended["record"]["budget"] == 1200
    assert ended["winner"] == undisturbed["winner"]
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")
    assert gpnn("train", "--resume", "run", "train.epochs=12", "-q", "--no-report").exit_code in (0, 2)


@pytest.mark.thorough
def test_a_run_stopped_in_its_search_has_the_best_trial(gpnn, tiny, tmp_path, monkeypatch):
    from gpnn.build import Built

    tried, trials = Built.fit, []

    def signalled(built, checkpoint, callbacks):
        trials.append(built)
        return tried(built, checkpoint, [*callbacks, Raise()] if len(trials) == 3 else callbacks)

    with monkeypatch.context() as patch:
        patch.setattr(Built, "fit", signalled)
        assert gpnn("train", *tiny, "--search", 4, "--out", "run", "-q").exit_code == 130
    rows = json.loads((tmp_path / "run" / "search.json").read_text())["trials"]
    assert len(rows) == 2
    assert metrics_of(tmp_path / "run")["val_accuracy"] >= max(row["value"] for row in rows)
    assert gpnn("predict", "run", "--out", "a.csv", "-q").exit_code == 0
    assert gpnn("train", "--resume", "run", "-q", "--no-report").exit_code == 0
    assert gpnn("train", *tiny, "--search", 4, "--out", "whole", "-q", "--no-report").exit_code == 0
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")
    assert not (tmp_path / "run" / "search").exists()
