"""No picture: a table that says it all."""

from __future__ import annotations

from pathlib import Path

from gpnn.experiment.entry import Entry
from gpnn.experiment.results import Results
from gpnn.experiment.spec import Experiment


def draw_none(experiment: Experiment, entries: list[Entry], results: Results, folder: Path) -> list[tuple[str, Path]]:
    """Nothing."""
    return []
