"""What changes by epoch: loss, validation metrics, and the bytes that processes send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from gpnn.report.content import Chart, Section, Table, Trace, color
from gpnn.report.record import Record
from gpnn.text import SHARES, metric_text, size
from gpnn.train.metrics import merit

MAX_POINTS = 1000
LINES = {
    "sent_bytes": "sent by the busiest process",
    "synchronous_bytes": "if propagation were synchronous",
    "reduced_bytes": "parameter gradients, reduced",
}
MAX_SHARES = 64


def learning_curves(record: Record) -> Section | None:
    """Loss of training and validation, and the metric that chose the weights, with the best epoch marked."""
    if not history_column(record.history, "loss")[0]:
        return None
    metric = str(record.metrics.get("metric", "accuracy"))
    charts = [_loss(record)]
    checked = [name for name in dict.fromkeys((metric, "accuracy")) if history_column(record.history, f"val_{name}")[1]]
    if checked:
        charts.append(_metric(record, checked))
    ends = {"patience": "validation no longer improved", "epochs": "the last epoch was reached"}
    ends["interrupted"] = "it was stopped"
    why = ends.get(str(record.metrics.get("stopped")), "it was done")
    epochs, best = record.metrics.get("epochs") or len(record.history), record.metrics.get("best_epoch")
    lead = f"Training took {epochs:,} epochs and ended because {why}; the weights are those of epoch {best}."
    if len(record.history) > MAX_POINTS:
        lead += f" Curves show {MAX_POINTS:,} epochs, evenly spaced."
    return Section("curves", "Learning curves", lead, charts)


def _loss(record: Record) -> Chart:
    traces = []
    for number, (name, words) in enumerate((("loss", "training objective"), ("val_loss", "validation loss"))):
        epochs, values = history_column(record.history, name)
        if epochs:
            traces.append(curve(words, epochs, values, color(number)))
    layout = {"xaxis": {"title": {"text": "epoch"}}, "yaxis": {"title": {"text": "loss"}, "rangemode": "tozero"}}
    first, last = traces[0]["y"][0], traces[0]["y"][-1]
    alt = f"The training objective goes from {first:.3g} to {last:.3g}."
    return Chart("loss", "Loss", alt, {"loss": traces}, layout)


def _metric(record: Record, names: list[str]) -> Chart:
    traces = []
    for number, name in enumerate(names):
        epochs, values = history_column(record.history, f"val_{name}")
        traces.append(curve(f"validation {name.replace('_', ' ')}", epochs, values, color(number), value_hover(name)))
    best, shares = record.metrics.get("best_epoch"), all(name in SHARES for name in names)
    if best in traces[0]["x"]:
        height = traces[0]["y"][traces[0]["x"].index(best)]
        star = {"symbol": "star", "size": 13, "color": color(4)}
        hover = f"best: epoch %{{x}}, %{{y:{'.1%' if shares else '.4g'}}}<extra></extra>"
        traces.append(
            {"type": "scatter", "mode": "markers", "name": "best", "x": [best], "y": [height], "marker": star}
            | {"hovertemplate": hover}
        )
    layout = {"xaxis": {"title": {"text": "epoch"}}, "yaxis": {"tickformat": ".0%"} if shares else {}}
    reached = metric_text(names[0], max(traces[0]["y"], key=partial(merit, names[0])))
    alt = f"Validation {names[0].replace('_', ' ')} reaches {reached}."
    return Chart("metric", "Validation", alt, {"metric": traces}, layout)


def history_column(history: Sequence[Mapping[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """The epochs at which a metric was noted, and its values; not more than a chart can show."""
    rows = [(row["epoch"], row[name]) for row in history if row.get(name) is not None]
    if len(rows) > MAX_POINTS:
        last = len(rows) - 1
        rows = [rows[round(at * last / (MAX_POINTS - 1))] for at in range(MAX_POINTS)]
    return [epoch for epoch, _ in rows], [float(f"{value:.5g}") for _, value in rows]


def curve(name: str, epochs: list[int], values: list[float], shade: str, hover: str = "epoch %{x}: %{y:.4g}") -> Trace:
    """A line of one metric by epoch."""
    return {
        "type": "scatter",
        "mode": "lines" if len(epochs) > 1 else "markers",
        "name": name,
        "x": epochs,
        "y": values,
        "line": {"color": shade, "width": 2},
        "hovertemplate": hover,
    }


def value_hover(name: str) -> str:
    """What one reads over a point of a metric's curve: a percentage where it is a share."""
    return "epoch %{x}: %{y:.1%}" if name in SHARES else "epoch %{x}: %{y:.4g}"


def traffic(record: Record) -> Section | None:
    """Bytes per epoch and what each process holds; None where one process holds the graph."""
    if not record.shares:
        return None
    number = len(record.shares)
    lead = f"{number} process{'es' if number > 1 else ''} trained together. "
    lead += "Phases inside subgraphs send nothing; a phase over the cut sends the halo's rows, once per repeat."
    columns = ("process", *record.shares[0])
    rows = [(str(rank), *share.values()) for rank, share in enumerate(record.shares[:MAX_SHARES])]
    if number > MAX_SHARES:
        lead += f" The first {MAX_SHARES} processes are shown."
    charts = [_bytes(record)] if history_column(record.history, "sent_bytes")[0] else []
    return Section("traffic", "Processes", lead, [*charts, Table("What each holds", columns, rows)])


def _bytes(record: Record) -> Chart:
    traces, most = [], {}
    for number, (name, words) in enumerate(LINES.items()):
        epochs, values = history_column(record.history, name)
        most[name] = max(values, default=0)
        traces.append(curve(words, epochs, values, color(number), hover="epoch %{x}: %{y:.4s}B"))
    layout = {
        "xaxis": {"title": {"text": "epoch"}},
        "yaxis": {"rangemode": "tozero", "tickformat": ".3s", "ticksuffix": "B"},
    }
    alt = "; ".join(f"{words}: at most {size(most[name])} per epoch" for name, words in LINES.items())
    return Chart("bytes", "Bytes per epoch", alt, {"bytes": traces}, layout)
