"""Trade-off: the first measure against the second, a panel a column, a curve a family of rows."""

from __future__ import annotations

from pathlib import Path

from experiments.harness.entry import Entry, by_place, drawn_columns
from experiments.harness.measure import words
from experiments.harness.pictures.save import COLOURS, save_figure
from experiments.harness.results import Results
from experiments.harness.spec import Experiment


def draw_tradeoff(
    experiment: Experiment, entries: list[Entry], results: Results, folder: Path
) -> list[tuple[str, Path]]:
    """One picture; rows whose names agree up to the last comma are one curve, and what follows it names the point."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    path, columns = folder / f"{experiment.name}.svg", drawn_columns(experiment, entries)
    figure = Figure(figsize=(4.6 * len(columns), 4.4), layout="constrained")
    panels = figure.subplots(1, len(columns), squeeze=False)[0]
    place, families = by_place(entries), list(dict.fromkeys(_family(row.name)[0] for row in experiment.rows))
    for panel, column in zip(panels, columns):
        for number, family in enumerate(families):
            points = [_point(place, row.name, column, experiment) for row in experiment.rows]
            own = [point for point in points if point is not None and point[3] == family]
            colour = COLOURS[number % len(COLOURS)]
            x, y, errors = ([point[at] for point in own] for at in range(3))
            panel.errorbar(x, y, errors, label=family, color=colour, marker="o", capsize=2, markersize=4)
            for point in own:
                panel.annotate(point[4], point[:2], textcoords="offset points", xytext=(3, 4), fontsize=6, color=colour)
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))  # powers would need formulas
        panel.xaxis.set_minor_formatter(NullFormatter())  # or labels run into each other
        panel.set_title(column)
        panel.set_xlabel(words(experiment.also[0]))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(words(experiment.measure))
    panels[0].legend(fontsize=7)
    save_figure(figure, path)
    return [(experiment.title, path)]


def _family(row: str) -> tuple[str, str]:
    family, _, point = row.rpartition(", ")
    return family or row, point if family else ""


def _point(
    place: dict[tuple[str, str, str], Entry], row: str, column: str, experiment: Experiment
) -> tuple[float, float, float, str, str] | None:
    """(x, y, deviation, family, name) of a row in a column, where both measures are there."""
    up, along = (place.get((row, column, measure)) for measure in experiment.measures[:2])
    if up is None or along is None or up.mean is None or along.mean is None:
        return None
    return along.mean, up.mean, up.deviation or 0.0, *_family(row)
