"""The command line on a graph small enough to train on in a blink."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpnn.cli import app

TINY = ["planted", "data.num_nodes=120", "data.num_classes=3", "data.num_features=20", "data.label_rate=0.2"]
SMALL_MODEL = ["model.hidden_channels=8", "model.dropout=0.3", "train.epochs=6", "partition.k=3"]


@pytest.fixture
def tiny() -> list[str]:
    return [*TINY, *SMALL_MODEL]


@pytest.fixture
def tiny_graph() -> list[str]:
    return list(TINY)


@pytest.fixture
def gpnn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The command line, run in an empty folder; gives the result of one call."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *words: runner.invoke(app, [str(word) for word in words])


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of `tiny` without a report; a test that changes it takes a copy."""
    run = tmp_path_factory.mktemp("finished") / "run"
    words = ["train", *TINY, *SMALL_MODEL, "--quiet", "--no-report", "--out", str(run)]
    assert CliRunner().invoke(app, words).exit_code == 0
    return run
