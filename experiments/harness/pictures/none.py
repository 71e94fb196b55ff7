"""No picture: a table that says it all."""

from __future__ import annotations

from pathlib import Path

from experiments.harness.entry import Entry
from experiments.harness.results import Results
from experiments.harness.spec import Experiment


def draw_none(experiment: Experiment, entries: list[Entry], results: Results, folder: Path) -> list[tuple[str, Path]]:
    """Nothing."""
    return []
