"""Pictures: how an experiment's results are drawn, by the name that its key `picture` gives."""

from collections.abc import Callable
from pathlib import Path

from experiments.harness.entry import Entry
from experiments.harness.pictures.bars import draw_bars
from experiments.harness.pictures.curves import draw_curves
from experiments.harness.pictures.dags import draw_dags
from experiments.harness.pictures.none import draw_none
from experiments.harness.pictures.phases import draw_phases
from experiments.harness.pictures.planes import draw_planes
from experiments.harness.pictures.tradeoff import draw_tradeoff
from experiments.harness.results import Results
from experiments.harness.spec import Experiment

# (experiment, entries, results, folder) -> a caption and a file for each picture written
Draw = Callable[[Experiment, list[Entry], Results, Path], list[tuple[str, Path]]]

PICTURES: dict[str, Draw] = {
    "bars": draw_bars,
    "curves": draw_curves,
    "tradeoff": draw_tradeoff,
    "planes": draw_planes,
    "phases": draw_phases,
    "dags": draw_dags,
    "none": draw_none,
}
