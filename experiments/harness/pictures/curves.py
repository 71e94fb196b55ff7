"""Curves: the measure against the columns, a curve a row, the paper's dashed."""

from __future__ import annotations

from pathlib import Path

from experiments.harness.entry import Entry, finished
from experiments.harness.measure import words
from experiments.harness.pictures.save import COLOURS, save_figure
from experiments.harness.results import Results
from experiments.harness.spec import Experiment


def draw_curves(experiment: Experiment, entries: list[Entry], results: Results, folder: Path) -> list[tuple[str, Path]]:
    """One picture of the first measure; columns stand at equal distances, in their order."""
    from matplotlib.figure import Figure

    path, place = folder / f"{experiment.name}.svg", {each.name: at for at, each in enumerate(experiment.columns)}
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    panel = figure.subplots()
    for number, row in enumerate(experiment.rows):
        colour = COLOURS[number % len(COLOURS)]
        drawn = [pair for pair in finished(entries, experiment.measure) if pair[0].row == row.name]
        x = [place[entry.column] for entry, _ in drawn]
        errors = [entry.deviation or 0.0 for entry, _ in drawn]
        panel.errorbar(x, [mean for _, mean in drawn], errors, label=row.name, color=colour, marker="o", capsize=3)
        printed = [(place[entry.column], entry.paper) for entry, _ in drawn if entry.paper is not None]
        if printed:
            panel.plot(
                *zip(*printed), linestyle="--", marker="|", color=colour, label=f"{row.name}, {experiment.source}"
            )
    panel.set_xticks(list(place.values()), list(place))
    panel.set_ylabel(words(experiment.measure))
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8)
    save_figure(figure, path)
    return [(experiment.title, path)]
