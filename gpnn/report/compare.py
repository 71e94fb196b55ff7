"""Several runs in one report, like beside like: curves overlaid, metrics side by side, settings that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpnn.report.html import check_extra, render
from gpnn.report.record import Chart, Section, Table, Trace, color, horizontal_bars, label
from gpnn.report.verdict import curve, history_column, value_hover
from gpnn.run.folder import RunFolder
from gpnn.storage.atomic import write_text
from gpnn.storage.read import flatten, read_json, read_toml
from gpnn.text import SHARES, metric_text, metric_words, value_text
from gpnn.train.metrics import METRICS, merit
from gpnn.train.task import shown_metrics

DASHES = ("solid", "dash", "dot", "dashdot")
COUNTS = ("epochs", "best_epoch", "num_parameters", "num_parts", "num_rounds", "num_messages", "num_updates", "seed")


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs, as its folder describes it.

    Attributes:
        name: its folder's name, or path where names are alike.
        metrics: the final metrics; empty while it is not finished.
        history: one record per epoch.
        settings: its configuration, by dotted name.
        environment: where it took place.
    """

    name: str
    metrics: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]


def write_comparison(paths: Sequence[Path], out: Path) -> None:
    """Write one report that compares the runs at these paths; runs that still train take part with what they have.

    Raises:
        ValueError: when one of them is not a run.
        ImportError: without plotly or jinja2, naming the extra.
    """
    check_extra()
    runs = read_runs(paths)
    groups = group_runs(runs)
    sections = [_results(groups), _curves(groups), _differences(runs)]
    cards = [card for group in groups.values() if (card := _best_card(group)) is not None]
    below = ", ".join(run.name for run in runs)
    write_text(out, render("Comparison of runs", "Comparison", below, [*cards, ("runs", str(len(runs)))], sections))


def group_runs(runs: Sequence[ComparedRun]) -> dict[str, list[ComparedRun]]:
    """The runs whose metrics can be compared, those of one dataset and task, by its name in words.

    A run without metrics stands with the first of its dataset.
    """
    groups: dict[str, list[ComparedRun]] = {}
    for run in sorted(runs, key=lambda run: not run.metrics):
        data, task = Path(str(run.settings.get("data.name", ""))).name, run.metrics.get("task", "classification")
        nodes = run.metrics.get("num_nodes")
        name = f"{data}, {task.replace('_', ' ')}" + (f" of {nodes:,} nodes" if nodes else "")
        if not run.metrics:
            name = next((each for each in groups if each.startswith(f"{data}, ")), data)
        groups.setdefault(name, []).append(run)
    order = {id(run): place for place, run in enumerate(runs)}
    return {name: sorted(group, key=lambda run: order[id(run)]) for name, group in groups.items()}


def _best_card(runs: Sequence[ComparedRun]) -> tuple[str, str] | None:
    """The best run of a group by validation, and its metric; None where none has one."""
    metric = _common_metric(runs)
    found = {run.name: run.metrics[f"val_{metric}"] for run in runs if run.metrics.get(f"val_{metric}") is not None}
    if not found:
        return None
    best = max(found, key=lambda name: merit(metric, found[name]))
    return f"best {metric_words(f'val_{metric}')}: {best}", metric_text(metric, found[best])


def _common_metric(runs: Sequence[ComparedRun]) -> str:
    """The metric by which runs are compared: the one that selects in all, else the first of their tasks."""
    finished = [run.metrics for run in runs if run.metrics]
    chosen = {str(metrics.get("metric")) for metrics in finished}
    if len(chosen) == 1 and chosen <= set(METRICS):
        return chosen.pop()
    return shown_metrics(finished[0])[0] if finished else "accuracy"


def read_runs(paths: Sequence[Path]) -> list[ComparedRun]:
    """The runs in the order given, each by a name of its own."""
    names = [path.resolve().name for path in paths]
    alike = len(set(names)) < len(names)
    return [_read(RunFolder.open(path), str(path) if alike else name) for path, name in zip(paths, names)]


def differing(columns: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Any]]]:
    """The names whose values are not the same in all mappings, with the value in each (None where it has none).

    >>> differing([{"a": 1, "b": 2}, {"a": 1, "b": 3}])
    [('b', [2, 3])]
    """
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, [column.get(name) for column in columns]) for name in names]
    return [(name, values) for name, values in rows if any(value != values[0] for value in values)]


def _read(run: RunFolder, name: str) -> ComparedRun:
    settings, environment = dict(flatten(read_toml(run.config))), read_json(run.environment)
    where = {key: value for key, value in environment.items() if key not in ("command", "settings")}
    metrics = run.read_metrics() if run.has_results else {}
    return ComparedRun(name, metrics, run.read_history(), settings, dict(flatten(where)))


def _results(groups: Mapping[str, Sequence[ComparedRun]]) -> Section:
    lead = "Final metrics, of the weights that validation chose. A dash: the run is not finished or has no such nodes."
    if len(groups) > 1:
        lead += " Runs of another dataset or task stand apart: their metrics do not compare."
    parts: list[Chart | Table] = []
    for number, (name, runs) in enumerate(groups.items()):
        title = "Metrics" if len(groups) == 1 else name
        parts += [*_bars(runs, f"bars-{number}" if number else "bars", title), _metrics(runs, title)]
    return Section("results", "Results", lead, parts)


def _metrics(runs: Sequence[ComparedRun], title: str) -> Table:
    shown: dict[str, Callable[[Any], str]] = {name: partial(metric_text, name) for name in _measured(runs)}
    counts = [name for name in (*COUNTS, "stopped") if any(run.metrics.get(name) is not None for run in runs)]
    shown |= dict.fromkeys(("seconds", *counts), value_text)
    rows = [[_words(name), *(show(run.metrics.get(name)) for run in runs)] for name, show in shown.items()]
    return Table(title, ["", *(run.name for run in runs)], rows, wide=True)


def _measured(runs: Sequence[ComparedRun]) -> list[str]:
    names = [f"{split}_{name}" for name in (*METRICS, "recall") for split in ("val", "test")]
    return [name for name in names if any(run.metrics.get(name) is not None for run in runs)]


def _bars(runs: Sequence[ComparedRun], name: str, title: str) -> list[Chart]:
    """One metric of the runs side by side, test and validation; nothing where none has it."""
    metric, found = _common_metric(runs), _measured(runs)
    names = [key for key in (f"test_{metric}", f"val_{metric}") if key in found]
    if not names:
        return []
    views: dict[str, list[Trace]] = {}
    for key in names:
        values = [run.metrics.get(key) for run in runs]
        bars = horizontal_bars(values, list(range(len(runs))), [color(0)] * len(runs), "%{text}")
        views[_words(key)] = [bars | {"text": [metric_text(key, value) for value in values]}]
    axis = {"tickvals": list(range(len(runs))), "ticktext": [label(run.name) for run in runs], "autorange": "reversed"}
    share = {"tickformat": ".0%", "range": [0, 1]} if metric in SHARES else {}
    layout = {"yaxis": axis | {"showgrid": False}, "xaxis": share}
    alt = "; ".join(f"{run.name}: {metric_text(names[0], run.metrics.get(names[0]))}" for run in runs)
    return [Chart(name, f"Side by side: {title}", alt, views, layout, max(220, 80 + 36 * len(runs)), wide=True)]


def _curves(groups: Mapping[str, Sequence[ComparedRun]]) -> Section:
    """Curves of each group: shares in one chart, in percent, losses and other numbers in another."""
    parts = []
    for number, (group, runs) in enumerate(groups.items()):
        names = list(dict.fromkeys((f"val_{_common_metric(runs)}", "val_accuracy", "val_roc_auc", "val_loss", "loss")))
        shares = [name for name in names if name.removeprefix("val_") in SHARES]
        others = [name for name in names if name not in shares]
        for name, keys, axis in (("curves-chart", shares, {"tickformat": ".0%"}), ("curves-loss", others, {})):
            views = _views(runs, keys)
            if views:
                layout = {"xaxis": {"title": {"text": "epoch"}}, "yaxis": axis}
                title = "By epoch" if len(groups) == 1 else f"By epoch: {group}"
                alt = f"Learning curves of {len(runs)} runs."
                place = f"{name}-{number}" if number else name
                parts.append(Chart(place, title, alt, views, layout, 420, wide=True))
    return Section("curves", "Learning curves", "A click on a name hides its curve.", parts)


def _views(runs: Sequence[ComparedRun], names: Sequence[str]) -> dict[str, list[Trace]]:
    views = {}
    for name in names:
        traces = [_line(run, number, name) for number, run in enumerate(runs)]
        if any(trace["x"] for trace in traces):
            views["training objective" if name == "loss" else _words(name)] = traces
    return views


def _line(run: ComparedRun, number: int, name: str) -> Trace:
    hover = value_hover(name.removeprefix("val_"))
    line = curve(label(run.name), *history_column(run.history, name), color(number), hover)
    return line | {"line": line["line"] | {"dash": DASHES[number // 10 % len(DASHES)]}}


def _differences(runs: Sequence[ComparedRun]) -> Section:
    names = [run.name for run in runs]
    parts = []
    for title, columns in (
        ("Settings", [run.settings for run in runs]),
        ("Environment", [run.environment for run in runs]),
    ):
        rows = [[name, *map(value_text, values)] for name, values in differing(columns)]
        if rows:
            parts.append(Table(title, ["", *names], rows, wide=True))
    lead = "What is not the same in all runs." if parts else "All settings and environments are the same."
    return Section("differences", "Differences", lead, parts)


def _words(name: str) -> str:
    return "subgraphs" if name == "num_parts" else metric_words(name.removeprefix("num_"))
