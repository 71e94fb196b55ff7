"""Bars: a panel a column, a bar a row with its deviation, the paper's figure as a tick."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.entry import Entry, drawn_columns, finished
from experiments.harness.measure import words
from experiments.harness.pictures.save import COLOURS, save_figure
from experiments.harness.results import Results
from experiments.harness.spec import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_bars(experiment: Experiment, entries: list[Entry], results: Results, folder: Path) -> list[tuple[str, Path]]:
    """One picture of the first measure."""
    from matplotlib.figure import Figure

    columns, path = drawn_columns(experiment, entries), folder / f"{experiment.name}.svg"
    figure = Figure(figsize=(3.2 * len(columns) + 1.5, 0.28 * len(experiment.rows) + 1.2), layout="constrained")
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    drawn = list(finished(entries, experiment.measure))
    found = {entry.row for entry, _ in drawn}
    rows = [row.name for row in experiment.rows if row.name in found]
    panels[0].barh(rows, [0.0] * len(rows))  # or the rows of the first panel would come first
    for panel, column in zip(panels, columns):
        _panel(panel, [pair for pair in drawn if pair[0].column == column])
        panel.set_title(column)
    panels[0].invert_yaxis()
    figure.supxlabel(f"{words(experiment.measure)} (red: {experiment.source})")
    save_figure(figure, path)
    return [(experiment.title, path)]


def _panel(panel: Axes, drawn: list[tuple[Entry, float]]) -> None:
    names, means = [entry.row for entry, _ in drawn], [mean for _, mean in drawn]
    papers = [(entry.row, entry.paper) for entry, _ in drawn if entry.paper is not None]
    panel.barh(names, means, xerr=[entry.deviation or 0.0 for entry, _ in drawn], color=COLOURS[0], height=0.7)
    for row, paper in papers:
        panel.plot([paper], [row], marker="|", markersize=12, markeredgewidth=2, color=COLOURS[1])
    low = min([*means, *(paper for _, paper in papers)], default=0)
    panel.set_xlim(max(0, low - 5), None)
    panel.grid(axis="x", alpha=0.3)
