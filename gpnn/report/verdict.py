"""The verdict: how good a run is beside plain methods and its own training nodes, its race and its epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from gpnn.race import RaceRecord
from gpnn.race.record import FRACTIONS
from gpnn.report.counts import SPLIT_NAMES
from gpnn.report.record import Chart, Record, Section, Table, Trace, color
from gpnn.text import SHARES, metric_text, metric_words, size
from gpnn.train.baselines import ABOUT
from gpnn.train.metrics import merit
from gpnn.train.task import shown_metrics

ALSO = ("macro_f1", "roc_auc")


def verdict(record: Record) -> Section:
    """The metrics in words, and a row for the run and for each plain method."""
    split = "test" if any(name.startswith("test_") for name in record.metrics) else "val"
    named = (*shown_metrics(record.metrics), *ALSO)
    names = [name for name in dict.fromkeys(named) if record.metrics.get(f"{split}_{name}") is not None]
    if not names:
        return Section("verdict", "Verdict", "No labelled node was held out, so that nothing can be said of it.", [])
    found = [f"{metric_words(name)} {metric_text(name, record.metrics[f'{split}_{name}'])}" for name in names]
    lead = f"{SPLIT_NAMES[split].capitalize()}: {', '.join(found)}."
    parts = [lead, _beside(record, split, names[0]), _gap(record, split, names[0]), _stopped(record)]
    return Section("verdict", "Verdict", " ".join(filter(None, parts)), [_table(record, split, names)])


def _beside(record: Record, split: str, name: str) -> str:
    """The run beside the best plain method."""
    key = f"{split}_{name}"
    found = {each: values[key] for each, values in record.baselines.items() if values.get(key) is not None}
    if not found:
        return ""
    best, ours = max(found, key=lambda each: merit(name, found[each])), record.metrics[key]
    theirs = f"{ABOUT.get(best, best)} ({metric_text(name, found[best])})"
    if merit(name, ours) <= merit(name, found[best]):
        return f"That is not better than the best plain method, {theirs}."
    by = f"{100 * (ours - found[best]):.1f} points better" if name in SHARES else "better"
    return f"That is {by} than the best plain method, {theirs}."


def _gap(record: Record, split: str, name: str) -> str:
    """The training nodes beside those held out."""
    train, ours = record.metrics.get(f"train_{name}"), record.metrics[f"{split}_{name}"]
    if train is None:
        return ""
    said = f"On the training nodes its {metric_words(name)} is {metric_text(name, train)}"
    gap = 100 * (train - ours) if name in SHARES else 0.0
    return f"{said}, {gap:.1f} points more." if gap >= 0.05 else f"{said}."


def _stopped(record: Record) -> str:
    if record.metrics.get("stopped") != "interrupted":
        return ""
    return f"The training was stopped after epoch {record.metrics.get('epochs', 0):,} and can be resumed."


def _table(record: Record, split: str, names: list[str]) -> Table:
    """The held-out split by every metric, the other splits by the first."""
    keys = [f"{split}_{name}" for name in names]
    keys += [f"{each}_{names[0]}" for each in ("val", "train") if each != split]
    keys = [key for key in keys if record.metrics.get(key) is not None]
    columns = ("", *(metric_words(key) for key in keys), "seconds")
    rows = [_row("this run", record.metrics, keys)]
    rows += [_row(ABOUT.get(name, name), found, keys) for name, found in record.baselines.items()]
    return Table("Beside plain methods", columns, rows, wide=True)


def _row(name: str, metrics: Mapping[str, Any], keys: list[str]) -> tuple[str, ...]:
    seconds = metrics.get("seconds")
    shown = [metric_text(key, metrics.get(key)) for key in keys]
    return (name, *shown, "–" if seconds is None else f"{seconds:.1f}")


def race(record: Record) -> Section | None:
    """A row per recipe; None where there was no race."""
    if record.race is None or not record.race.finalists:
        return None
    raced = record.race
    best, metric = raced.finalists[0], metric_words(raced.metric)
    how = "as measured" if raced.measured else "by the sizes of graph and model"
    lead = f"{len(raced.costs)} recipes were tried on the validation nodes, within {raced.budget:,.0f} seconds {how}; "
    lead += f"after each rung the better ones continued. No other has a better validation {metric} than {best}. "
    lead += _blend_text(raced)
    rungs = [f"rung {rung + 1}" for rung in range(len(FRACTIONS))]
    columns = ("recipe", *rungs, "again", "epochs", "best epoch", "seconds", "ended")
    rows = [_race_row(raced, name) for name in ranking(raced)]
    lead += _left_out_text(raced)
    return Section("race", "What was tried", lead, [Table(f"Validation {metric}", columns, rows, wide=True)])


def _blend_text(raced: RaceRecord) -> str:
    """What predicts, in a sentence or two."""
    blend = raced.mixture
    if not blend.weights:
        return f"{raced.winner} predicts alone."
    parts = ", ".join(f"{name} ({weight:.2f})" for name, weight in blend.weights.items())
    text = f"Predictions are a blend of {parts}"
    if blend.gain is not None:
        text += f", whose validation loss differs from {raced.finalists[0]}'s by {-blend.gain:+.4f}, by cross-fitting"
    return f"{text}. A number after a name is a training with another seed. History and schedule are {raced.winner}'s."


def _left_out_text(raced: RaceRecord) -> str:
    """Who did not take part and why, in a sentence or two; nothing where all did."""
    text = ""
    if raced.left_out:
        text += f" Epochs that take too long for the budget: {', '.join(raced.left_out)}."
    if raced.too_large:
        text += f" Not in this memory: {'; '.join(f'{name}, {why}' for name, why in raced.too_large.items())}."
    return text


def ranking(raced: RaceRecord) -> list[str]:
    """All trainings, the best first; those that got farther before others, and those of one recipe together."""
    order: list[str] = []
    for rung in reversed(range(len(FRACTIONS))):
        order += [name for name in raced.ranking(rung) if name not in order]
    return [training for name in order for training in raced.trainings(name)]


def _race_row(raced: RaceRecord, name: str) -> tuple[str, ...]:
    """A recipe's metrics and cost."""
    shown = []
    for rung in range(len(FRACTIONS) + 1):
        row = raced.find(rung, name)
        value = None if row is None or row["value"] is None else merit(raced.metric, row["value"])
        shown.append("–" if row is None else "not finite" if value is None else metric_text(raced.metric, value))
    last = raced.last(name)
    ended = {"patience": "no longer improved", "epochs": "its last epoch", "non_finite": "diverged"}
    others = "the budget" if name in raced.finalists else "the rung" if name in raced.costs else "as its first"
    why = ended.get(last["stopped"], others)
    return (name, *shown, f"{last['epochs']:,}", f"{last.get('best_epoch', 0):,}", f"{last['seconds']:.1f}", why)


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
        traces.append(curve(f"validation {metric_words(name)}", epochs, values, color(number), value_hover(name)))
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
    alt = f"Validation {metric_words(names[0])} reaches {reached}."
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
