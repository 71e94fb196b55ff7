"""Phases: the schedule of each row, drawn phase by phase (Figure 1)."""

from __future__ import annotations

from pathlib import Path

from experiments.harness.entry import Entry
from experiments.harness.results import Results
from experiments.harness.spec import Experiment


def draw_phases(experiment: Experiment, entries: list[Entry], results: Results, folder: Path) -> list[tuple[str, Path]]:
    """A picture a row, of the first column's graph."""
    from experiments.harness.kinds.broadcast import build_schedule_of
    from gpnn.schedule import draw_schedule

    pictures, first = [], experiment.columns[0].name
    for number, cell in enumerate(cell for cell in experiment.cells() if cell.seed == 0 and cell.column == first):
        schedule, partition = build_schedule_of(cell.filled_settings, cell.seed)
        path = folder / f"{experiment.name}_{number + 1}.svg"
        draw_schedule(schedule, path, partition, title=cell.row)
        pictures.append((cell.row, path))
    return pictures
