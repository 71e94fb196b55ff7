"""An experiment's results as Markdown, CSV and a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpnn.experiment.pairs import pair_lines
from gpnn.experiment.results import Results, mean_and_deviation
from gpnn.experiment.spec import Cell, Experiment
from gpnn.train.atomic import replace_file, write_text


@dataclass(frozen=True)
class Entry:
    """One place of the table: a method on a dataset over all its finished seeds."""

    row: str
    column: str
    mean: float | None
    deviation: float | None
    seeds: int
    validation: float | None
    seconds: float | None
    paper: float | None


def write_report(experiment: Experiment, results: Results, folder: Path, command: str, machine: str) -> list[Path]:
    """Write NAME.md, NAME.csv and, where matplotlib is installed, NAME.svg; the files written."""
    entries = list(_entries(experiment, results))
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{experiment.name}.md", folder / f"{experiment.name}.csv"]
    write_text(files[1], _csv(entries))
    picture = folder / f"{experiment.name}.svg"
    if _draw(experiment, entries, picture):
        files.append(picture)
    lines = [
        *_table(experiment, entries),
        *([f"![{experiment.title}]({experiment.name}.svg)", ""] if picture in files else []),
        *pair_lines(experiment, results),
        *_remarks(experiment, entries, command, machine),
    ]
    write_text(files[0], "\n".join(lines) + "\n")
    return files


def _entries(experiment: Experiment, results: Results) -> Iterator[Entry]:
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in experiment.cells():
        groups.setdefault((cell.row, cell.column), []).append(cell)
    papers = {row.name: row.paper for row in experiment.rows}
    validation = experiment.measure.replace("test_", "val_")
    for (row, column), cells in groups.items():
        values = results.values(cells, experiment.measure)
        mean, deviation = mean_and_deviation(values) if values else (None, None)
        checked, seconds = (results.values(cells, name) for name in (validation, "seconds"))
        yield Entry(
            row,
            column,
            mean,
            deviation,
            len(values),
            mean_and_deviation(checked)[0] if checked else None,
            mean_and_deviation(seconds)[0] if seconds else None,
            papers[row].get(column),
        )


def _table(experiment: Experiment, entries: list[Entry]) -> list[str]:
    place = {(entry.row, entry.column): entry for entry in entries}
    columns = [column.name for column in experiment.columns]
    explained = f"`{experiment.measure}` in percent: mean ± sample standard deviation over {experiment.seeds} seeds"
    if any(0 < entry.seeds < experiment.seeds for entry in entries):
        explained += " (in brackets how many, where they are fewer)"
    if any(entry.paper is not None for entry in entries):
        explained += "; in parentheses the paper's figure and how far ours is from it"
    lines = [
        f"# {experiment.title}",
        "",
        f"{explained}.",
        "",
        "| | " + " | ".join(columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for row in experiment.rows:
        shown = (_show(place.get((row.name, column)), experiment.seeds) for column in columns)
        lines.append(f"| {row.name} | " + " | ".join(shown) + " |")
    return [*lines, ""]


def _remarks(experiment: Experiment, entries: list[Entry], command: str, machine: str) -> list[str]:
    runs = sum(entry.seeds for entry in entries)
    total = sum((entry.seconds or 0) * entry.seeds for entry in entries)
    return [
        *(f"- {note}" for note in experiment.notes),
        f"- {runs} runs, {total:,.0f} seconds of training in all.",
        f"- Machine: {machine}.",
        f"- Command: `{command}`",
    ]


def _show(entry: Entry | None, seeds: int) -> str:
    if entry is None or entry.mean is None or entry.deviation is None:
        return "–"
    text = f"{100 * entry.mean:.1f} ± {100 * entry.deviation:.1f}"
    if entry.seeds < seeds:
        text += f" [{entry.seeds}]"
    if entry.paper is not None:
        text += f" ({entry.paper:.1f}, {100 * entry.mean - entry.paper:+.1f})"
    return text


def _csv(entries: list[Entry]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "column", "mean", "deviation", "seeds", "validation", "seconds", "paper"])
    for entry in entries:
        numbers = (entry.mean, entry.deviation, entry.seeds, entry.validation, entry.seconds, entry.paper)
        writer.writerow([entry.row, entry.column, *("" if n is None else f"{n:.6g}" for n in numbers)])
    return out.getvalue()


def _draw(experiment: Experiment, entries: list[Entry], path: Path) -> bool:
    """A panel a column, a bar a row with its deviation, the paper's figure as a tick; False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    columns = [column.name for column in experiment.columns]
    figure = Figure(figsize=(3.2 * len(columns) + 1.5, 0.28 * len(experiment.rows) + 1.2), layout="constrained")
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for panel, column in zip(panels, columns):
        drawn = [entry for entry in entries if entry.column == column and entry.mean is not None]
        names = [entry.row for entry in drawn]
        means = [100 * (entry.mean or 0) for entry in drawn]
        panel.barh(names, means, xerr=[100 * (entry.deviation or 0) for entry in drawn], color="#4878a8", height=0.7)
        for entry in drawn:
            if entry.paper is not None:
                panel.plot([entry.paper], [entry.row], marker="|", markersize=12, markeredgewidth=2, color="#c44e52")
        low = min([*means, *(entry.paper for entry in drawn if entry.paper is not None)], default=0)
        panel.set_xlim(max(0, low - 5), None)
        panel.set_title(column)
        panel.grid(axis="x", alpha=0.3)
        panel.invert_yaxis() if panel is panels[0] else None
    figure.supxlabel(f"{experiment.measure}, percent (red: the paper)")
    replace_file(path, lambda partial: figure.savefig(partial, format="svg", metadata={"Date": None}))
    return True
