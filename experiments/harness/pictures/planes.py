"""Planes: the t-SNE points of each row's first seed, side by side, coloured by class (Figure 2a and 2b)."""

from __future__ import annotations

from pathlib import Path

from experiments.harness.entry import Entry
from experiments.harness.pictures.save import COLOURS, save_figure
from experiments.harness.results import Results
from experiments.harness.spec import Experiment


def draw_planes(experiment: Experiment, entries: list[Entry], results: Results, folder: Path) -> list[tuple[str, Path]]:
    """One picture, a panel a row; the points are pixels, since thousands of marks make a large SVG."""
    from matplotlib.figure import Figure

    path = folder / f"{experiment.name}.svg"
    found = [(cell.row, results.outcomes.get(cell.key)) for cell in experiment.cells() if cell.seed == 0]
    drawn = [(row, outcome.metrics) for row, outcome in found if outcome is not None]
    figure = Figure(figsize=(4.4 * max(1, len(drawn)), 4.4), layout="constrained")
    panels = figure.subplots(1, max(1, len(drawn)), squeeze=False)[0]
    for panel, (row, metrics) in zip(panels, drawn):
        colours = [COLOURS[each % len(COLOURS)] for each in metrics["plane_class"]]
        panel.scatter(metrics["plane_x"], metrics["plane_y"], s=4, c=colours, linewidths=0, rasterized=True)
        panel.set_title(f"{row}: silhouette {metrics['silhouette']:.3f}", fontsize=10)
        panel.set_xticks([])
        panel.set_yticks([])
    save_figure(figure, path)
    return [(experiment.title, path)]
