import json
import os
import re
from pathlib import Path

import pytest
import torch

import gpnn
from gpnn.run.folder import RunFolder, check_free, describe_environment, lock_run, reserve_run_path


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs" / "one", {"config.toml": "seed = 0\n", "environment.json": "{}\n"})


def test_it_appears_whole(run):
    assert sorted(path.name for path in run.path.iterdir()) == ["checkpoint", "config.toml", "environment.json"]
    assert [path.name for path in run.path.parent.iterdir()] == ["one"]
    assert not run.finished
    assert RunFolder.open(run.path) == run


def test_a_failure_leaves_nothing(tmp_path):
    with pytest.raises(AttributeError):
        RunFolder.create(tmp_path / "one", {"config.toml": 3})  # type: ignore[dict-item]
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_never_overwritten(run, tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"continue it with `gpnn train --resume {run.path}`")):
        RunFolder.create(run.path, {})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(ValueError, match="must be new or empty"):
        RunFolder.create(tmp_path / "full", {})
    (tmp_path / "empty").mkdir()
    assert RunFolder.create(tmp_path / "empty", {"config.toml": ""}).config.exists()


def test_it_needs_a_folder_to_lie_in(tmp_path):
    check_free(tmp_path / "new" / "run")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match=r"file/run"):
        check_free(tmp_path / "file" / "run")


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must hold config.toml"):
        RunFolder.open(tmp_path)


def test_history_grows_by_lines_and_survives_half_a_line(run):
    assert run.read_history() == []
    run.append_history({"epoch": 1, "loss": 0.5})
    run.append_history({"epoch": 2, "loss": float("nan")})
    with run.history.open("a") as file:
        file.write('{"epoch": 3, "lo')
    assert run.read_history() == [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": None}]
    run.rewrite_history([{"epoch": 1}])
    assert run.history.read_text() == '{"epoch": 1}\n'


def test_model_and_metrics_come_back(run):
    run.write_model({"w": torch.arange(3.0)}, {"in_channels": 3})
    weights, description = run.read_model()
    assert (weights["w"].tolist(), description) == ([0.0, 1.0, 2.0], {"in_channels": 3})
    run.write_metrics({"val_accuracy": 0.5, "val_roc_auc": float("nan")})
    assert run.finished
    assert json.loads(run.metrics.read_text()) == {"val_accuracy": 0.5, "val_roc_auc": None} == run.read_metrics()


def test_a_missing_or_damaged_model_is_refused(run):
    with pytest.raises(ValueError, match=r"A finished run must hold model.safetensors"):
        run.read_model()
    run.model.write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"must be a model. Got a damaged file"):
        run.read_model()


def test_default_names_do_not_collide(tmp_path):
    with reserve_run_path("digits", tmp_path) as first, reserve_run_path("digits", tmp_path) as second:
        assert re.fullmatch(r"digits-\d{8}-\d{6}", first.name)
        assert second != first
        assert {first, second} == set(tmp_path.iterdir())
        (second / "config.toml").touch()
    assert list(tmp_path.iterdir()) == [second]  # what stayed empty is gone


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (
            "metrics.json",
            '{"val_accuracy": [1]}',
            r"`val_accuracy` in metrics\.json must be a number or null",
        ),
        ("metrics.json", '{"metric": 3}', r"`metric` in metrics\.json must be a word\. Got 3\."),
        (
            "history.jsonl",
            '{"epoch": 1}\n{"loss": 0.5}\n',
            r"history\.jsonl, line 2 must number its epoch",
        ),
        ("history.jsonl", '{"epoch": 1, "loss": {}}\n', r"`loss` in history\.jsonl, line 1 must be a number or null"),
    ],
)
def test_figures_are_checked_where_they_are_read(tmp_path, name, text, sentence):
    run = RunFolder.create(tmp_path / "run", {"config.toml": "", name: text})
    with pytest.raises(ValueError, match=sentence):
        run.read_metrics() if name == "metrics.json" else run.read_history()


@pytest.mark.parametrize("name", ["checkpoint", "tensorboard", "race"])
def test_a_link_in_a_received_run_is_not_followed(tmp_path, name):
    run = RunFolder.create(tmp_path / "run", {"config.toml": ""})
    (tmp_path / "elsewhere").mkdir()
    if name == "checkpoint":
        run.checkpoint.parent.rmdir()
    (run.path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=rf"The folders of a run must not be links\. '.*{name}' is one\."):
        RunFolder.open(run.path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("name", ["predictions.parquet", "history.jsonl", "checkpoint/training.safetensors"])
def test_a_pipe_in_a_received_run_is_not_opened(tmp_path, name):
    run = RunFolder.create(tmp_path / "run", {"config.toml": ""})
    os.mkfifo(run.path / name)  # opening it would wait for a writer
    with pytest.raises(ValueError, match=r"must be a file\. Got a pipe, a device or a folder\.$"):
        RunFolder.open(run.path)


def test_the_folder_of_runs_may_vanish_meanwhile(tmp_path, monkeypatch):
    """A run beside this one that came to nothing removes the folder that it made."""
    made = []

    def vanishing(folder):
        folder.mkdir(exist_ok=True)
        made.append(folder)
        if len(made) == 1:
            folder.rmdir()

    monkeypatch.setattr("gpnn.run.folder.make_folder", vanishing)
    with reserve_run_path("digits", tmp_path / "runs") as path:
        assert path.is_dir()
    assert len(made) == 2


def test_a_second_holder_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    with (
        lock_run(tmp_path),
        pytest.raises(ValueError, match=r"one process at a time\. '.*' is in use by another\."),
        lock_run(tmp_path),
    ):
        pass
    with lock_run(tmp_path):
        assert list(tmp_path.iterdir()) == []  # nothing stands in the folder for it


@pytest.mark.parametrize("place", ["", "checkpoint", "race/spread", "members", "members/gated.2"])
def test_whoever_holds_it_removes_what_a_kill_left(run, place):
    """A race whose winner had been killed in the last act of its checkpoint kept an empty folder."""
    left = run.path / place / ".file.0123456789abcdef.partial"
    left.mkdir(parents=True)
    with lock_run(run.path):
        assert not left.exists()


def test_what_a_link_leads_to_is_left_alone(run, tmp_path):
    left = tmp_path / ".file.0123456789abcdef.partial"
    left.mkdir()
    (run.path / "members").mkdir()
    (run.path / "members" / "gated").symlink_to(tmp_path)
    with lock_run(run.path):
        assert left.exists()


def test_a_holder_that_fails_lets_go(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), lock_run(tmp_path):
        raise RuntimeError
    with lock_run(tmp_path):
        pass
    if (open_files := Path("/proc/self/fd")).is_dir():
        assert tmp_path not in [each.resolve() for each in open_files.iterdir()]


def test_it_names_versions_and_machine_and_is_json():
    environment = json.loads(json.dumps(describe_environment()))
    assert environment["gpnn"] == gpnn.__version__
    assert environment["packages"]["torch"]
    assert environment["device"] == "cpu"
