"""Predictions of the held-out nodes: accuracy per class, the confusion matrix and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from gpnn.report.counts import MAX_CLASSES, SPLIT_NAMES, PredictionCounts
from gpnn.report.record import Chart, Record, Section, Table, Trace, bars, color, diagonal, horizontal_bars, label
from gpnn.text import percent, value_text
from gpnn.train.evaluate import CALIBRATED
from gpnn.train.loss import BINS

MAX_PAIRS = 12


def classes(record: Record) -> Section | None:
    """Accuracy per class and the confusion matrix of the held-out splits; F1 per label where nodes have several."""
    found = record.predictions
    if found is None:
        return None
    if record.multi_label:
        lead = _lead(record, "F1 = 2·tp / (2·tp + fp + fn) of each label.")
        return Section("classes", "Labels", lead, [_f1(record, found)])
    lead = _lead(record, "Rows are true classes, columns are predictions; a row adds up to 100 %.")
    parts = [_accuracy(record, found.classes, found.shown), _matrix(record, found.classes, found.shown)]
    confused = _confused(record, found)
    place = 1 if parts[1].wide else 2
    return Section("classes", "Classes", lead, [*parts[:place], *confused, *parts[place:]])


def _lead(record: Record, words: str) -> str:
    if len(record.classes) > MAX_CLASSES:
        words += f" The {MAX_CLASSES} largest of {len(record.classes)} are shown."
    return words


def _accuracy(record: Record, counts: Mapping[str, Tensor], shown: Tensor) -> Chart:
    by_split = {}
    for split, matrix in counts.items():
        total, right = matrix.sum(1), matrix.diagonal()
        share = (right / total.clamp(min=1)).tolist()
        text = [f"{percent(s)} of {n:,}" if n else "no node" for s, n in zip(share, total.tolist())]
        by_split[split] = (share, text)
    first, sizes = next(iter(by_split.values()))[0], next(iter(counts.values())).sum(1).tolist()
    lowest, worst = min((s, name) for s, name, n in zip(first, shown.tolist(), sizes) if n)
    alt = f"Of the classes, {record.classes[worst]} is predicted worst, {percent(lowest)}."
    return _sorted_bars("Accuracy per class", alt, record, by_split, shown)


def _sorted_bars(
    title: str, alt: str, record: Record, by_split: Mapping[str, tuple[list[float], list[str]]], shown: Tensor
) -> Chart:
    """Bars of the classes by split, all in the order of the first split, the best on top."""
    first = next(iter(by_split.values()))[0]
    order = sorted(range(len(first)), key=lambda place: -first[place])
    views = {
        split: [_class_bars([share[place] for place in order], [text[place] for place in order])]
        for split, (share, text) in by_split.items()
    }
    return Chart("accuracy", title, alt, views, _by_class(record, shown[order]), _height(shown))


def _confused(record: Record, found: PredictionCounts) -> list[Table]:
    """The pairs of classes that are confused most often, in the first split; none where nothing is confused."""
    split, matrix = next(iter(found.classes.items()))
    size, total = len(found.shown), matrix.sum(1)
    wrong = matrix[:, :size].clone().fill_diagonal_(0).flatten()
    best = wrong.topk(min(MAX_PAIRS, wrong.numel()))
    rows = []
    for count, place in zip(best.values.tolist(), best.indices.tolist()):
        true, given = divmod(place, size)
        if count:
            names = (record.classes[int(found.shown[each])] for each in (true, given))
            pair = " → ".join(value_text(name)[:40] for name in names)
            rows.append((pair, count, percent(count / int(total[true]))))
    columns = ("true class → prediction", f"{split} nodes", "of the class")
    return [Table("Most confused", columns, rows)] if rows else []


def _matrix(record: Record, counts: Mapping[str, Tensor], shown: Tensor) -> Chart:
    rows = _names(record, shown)
    columns = [*rows, "others"] if len(record.classes) > len(shown) else rows
    views = {split: [_heat(matrix, rows, columns)] for split, matrix in counts.items()}
    axis = {"showgrid": False, "zeroline": False, "tickvals": list(range(len(columns))), "ticktext": columns}
    if len(columns) > 30:
        axis["tickfont"] = {"size": 10}
    long = sum(map(len, columns)) > 60  # letters, in half the width of the page
    layout = {
        "xaxis": axis | {"title": {"text": "prediction"}, "tickangle": -90 if long else 0},
        "yaxis": axis | {"autorange": "reversed", "title": {"text": "true class"}},
    }
    matrix = next(iter(counts.values()))
    wrong = int(matrix.sum() - matrix.diagonal().sum())
    alt = f"Confusion matrix: {wrong:,} of {int(matrix.sum()):,} nodes are given a wrong class."
    height, wide = max(_height(shown), 400) + (90 if long else 0), len(shown) > 12
    return Chart("confusion", "Confusion matrix", alt, views, layout, height, wide=wide)


def _heat(matrix: Tensor, rows: list[str], columns: list[str]) -> Trace:
    part = matrix[:, : len(columns)]
    share = (part / matrix.sum(1, keepdim=True).clamp(min=1)).tolist()
    hover = "true %{customdata[0]}<br>given %{customdata[1]}<br>%{customdata[2]} nodes, %{z:.1%}<extra></extra>"
    custom = [[[a, b, f"{n:,}"] for b, n in zip(columns, row)] for a, row in zip(rows, part.tolist())]
    trace: Trace = {"type": "heatmap", "z": [[round(s, 4) for s in row] for row in share], "customdata": custom}
    trace |= {"zmin": 0, "zmax": 1, "hovertemplate": hover, "xgap": 1, "ygap": 1, "colorscale": "theme"}
    trace |= {"colorbar": {"tickformat": ".0%", "thickness": 10, "outlinewidth": 0}}
    return trace | ({"text": part.tolist(), "texttemplate": "%{text}"} if len(rows) <= 12 else {})


def _f1(record: Record, found: PredictionCounts) -> Chart:
    by_split, shown = {}, found.shown
    for split, counts in found.classes.items():
        true, given, both = counts.T
        share = (2 * both / (true + given).clamp(min=1)).tolist()
        text = [f"{percent(s)}, {n:,} nodes" for s, n in zip(share, true.tolist())]
        by_split[split] = (share, text)
    return replace(_sorted_bars("F1 per label", "The F1 score of each label.", record, by_split, shown), wide=True)


def _class_bars(share: list[float], text: list[str]) -> Trace:
    shown = horizontal_bars([round(s, 4) for s in share], list(range(len(share))), [color(0)] * len(share), "%{text}")
    places = ["inside" if s > 0.5 else "outside" for s in share]  # "auto" writes nothing beside a bar of no length
    return shown | {"text": text, "textposition": places, "insidetextanchor": "start"}


def _by_class(record: Record, shown: Tensor) -> dict[str, Any]:
    """An axis of positions named after the classes: names may repeat or be empty, positions do not."""
    axis = {"tickvals": list(range(len(shown))), "ticktext": _names(record, shown), "showgrid": False}
    return {"xaxis": {"range": [0, 1], "tickformat": ".0%"}, "yaxis": axis | {"autorange": "reversed"}}


def _names(record: Record, shown: Tensor) -> list[str]:
    return [label(record.classes[number], 18) for number in shown.tolist()]


def _height(shown: Tensor) -> int:
    return max(300, 90 + (26 if len(shown) <= 20 else 20) * len(shown))


@dataclass(frozen=True)
class Reliability:
    """Nodes binned by how sure the model is of its prediction.

    Attributes:
        bin: the bins that have nodes, `[B]`.
        confidence: mean confidence in each, `[B]`.
        accuracy: share of right predictions in it, `[B]`.
        count: its nodes, `[B]`.
        error: expected calibration error, Σ_b n_b/n · |accuracy_b − confidence_b| (Guo et al. 2017).
    """

    bin: Tensor
    confidence: Tensor
    accuracy: Tensor
    count: Tensor
    error: float


def reliability(bins: Tensor) -> Reliability:
    """Confidence, accuracy and the expected calibration error of :func:`~gpnn.train.loss.bin_confidence`'s bins.

    >>> import torch
    >>> from gpnn.train.loss import bin_confidence
    >>> reliability(bin_confidence(torch.tensor([0.95, 0.95, 0.65]), torch.tensor([True, True, False]))).error
    0.25
    """
    count, sure, good = bins.T
    kept = count.nonzero().flatten()
    error = float((good - sure).abs().sum() / max(1.0, float(count.sum())))
    return Reliability(kept, (sure / count)[kept], (good / count)[kept], count[kept].long(), round(error, 9))


def calibration(record: Record) -> Section | None:
    """The reliability diagram and the expected calibration error of the held-out splits."""
    if record.predictions is None:
        return None
    found = {name: reliability(bins) for name, bins in record.predictions.bins.items()}
    errors = ", ".join(f"{percent(each.error)} on {name}" for name, each in found.items())
    lead = (
        f"Expected calibration error: {errors}. A model is calibrated when its points lie on the diagonal: "
        "above it, it is right more often than its confidence; below, less often."
    )
    if record.multi_label:
        lead += " Every label of a node is one prediction, yes or no."
    lead += _temperature(record.metrics)
    diagram = {name: [diagonal(0, 1), _points(each)] for name, each in found.items()}
    share = {"tickformat": ".0%", "range": [0, 1.02]}
    confidence, right = ({"title": {"text": text}} | share for text in ("confidence", "share that is right"))
    layout = {"xaxis": confidence, "yaxis": right, "showlegend": False}
    alt = f"Reliability diagram. Expected calibration error {errors}."
    how_sure = {name: [_histogram(each)] for name, each in found.items()}
    axes = {"xaxis": confidence, "yaxis": {"title": {"text": "predictions"}}}
    parts = [
        Chart("reliability", "Reliability", alt, diagram, layout),
        Chart("confidence", "How sure the model is", "Histogram of confidence.", how_sure, axes),
    ]
    return Section("calibration", "Calibration", lead, parts)


def _temperature(metrics: Mapping[str, Any]) -> str:
    """What the temperature changed on a held-out split; nothing where there is none."""
    split = next((each for each in ("test", "val") if f"{each}_log_loss_before" in metrics), None)
    if split is None:
        return ""
    loss, error, right = (
        [metrics.get(f"{split}_{name}{when}") for when in ("_before", "")] for name in (*CALIBRATED, "accuracy")
    )
    moved = right[0] is not None
    shares = f", accuracy {percent(right[0])} and {percent(right[1])}" if moved else ""
    return (
        f" Outputs are divided by a temperature{' and an offset of each class is added' if moved else ''}, fitted on "
        f"the validation nodes; on {SPLIT_NAMES[split]} the log loss was {value_text(loss[0])} before and is "
        f"{value_text(loss[1])}, the calibration error was {percent(error[0])} and is {percent(error[1])}{shares}."
    )


def _points(found: Reliability) -> Trace:
    count = found.count.double()
    marker = {
        "size": (8 + 16 * (count / count.max()).sqrt()).round(decimals=1).tolist(),
        "color": color(0),
        "opacity": 0.85,
    }
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": found.confidence.numpy().round(4).tolist(),
        "y": found.accuracy.numpy().round(4).tolist(),
        "text": [f"{n:,} predictions" for n in found.count.tolist()],
        "marker": marker,
        "line": {"color": color(0), "width": 1.5},
        "hovertemplate": "sure %{x:.1%}<br>right %{y:.1%}<br>%{text}<extra></extra>",
    }


def _histogram(found: Reliability) -> Trace:
    middle = ((found.bin + 0.5) / BINS).numpy().round(3).tolist()
    counts = found.count.tolist()
    return bars(middle, counts, color(0), "%{y:,} predictions", width=0.94 / BINS, showlegend=False)
