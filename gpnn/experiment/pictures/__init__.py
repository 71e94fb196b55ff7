"""Pictures: how an experiment's results are drawn, by the name that its key `picture` gives."""

from collections.abc import Callable
from pathlib import Path

from gpnn.experiment.entry import Entry
from gpnn.experiment.pictures.bars import draw_bars
from gpnn.experiment.pictures.curves import draw_curves
from gpnn.experiment.pictures.dags import draw_dags
from gpnn.experiment.pictures.none import draw_none
from gpnn.experiment.pictures.phases import draw_phases
from gpnn.experiment.pictures.planes import draw_planes
from gpnn.experiment.pictures.tradeoff import draw_tradeoff
from gpnn.experiment.results import Results
from gpnn.experiment.spec import Experiment

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
