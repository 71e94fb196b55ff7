"""What must hold of a run folder at every instant, whoever writes to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpnn.build import load_config
from gpnn.storage.read import read_json
from gpnn.storage.tensors import read_tensors
from gpnn.train import RunFolder

TIMED = ("seconds",)


def check_run(path: Path) -> None:
    """Raise unless the run folder is absent, or whole as far as it has come."""
    if not path.exists():
        return
    run = RunFolder.open(path)
    load_config(run.config)
    read_json(run.environment)
    finished = run.finished
    epoch = read_tensors(run.checkpoint, "a checkpoint")[1]["epoch"] if run.checkpoint.exists() else 0
    history = run.read_history()
    assert [record["epoch"] for record in history] == list(range(1, len(history) + 1))
    raced = not history and (path / "race.json").exists()  # the winner's checkpoint is there, and brings its history
    assert len(history) >= epoch or raced, "a checkpoint is ahead of the history"
    if finished:
        run.read_model()
        assert run.read_metrics()["epochs"] == len(history)
        assert read_predictions(run)


def check_same(one: Path, other: Path) -> None:
    """Raise unless two finished runs hold the same bits, times aside."""
    for name in ("config.toml", "model.safetensors", "predictions.parquet"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert timeless(RunFolder(one).read_metrics()) == timeless(RunFolder(other).read_metrics())
    histories = [[timeless(record) for record in RunFolder(path).read_history()] for path in (one, other)]
    assert histories[0] == histories[1]
    for path in (one, other):
        assert not list(path.rglob(".*")), "what a killed process left unfinished must be gone"


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    """A record without the times that no two runs share."""
    return {name: value for name, value in record.items() if name not in TIMED}


def read_predictions(run: RunFolder) -> int:
    """The number of predictions that a run's file holds."""
    from pyarrow import parquet

    return parquet.read_table(run.predictions).num_rows


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file of lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]
