"""How well each class is told from the others: accuracy a class and the confusion matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpnn.report.content import Chart, Section, Trace, color, label, percent
from gpnn.report.record import Record

MAX_CLASSES = 30


def classes(record: Record) -> Section | None:
    """Accuracy a class and the confusion matrix of the held-out splits; of several labels a node, F1 a label."""
    splits = record.held_out()
    if not splits:
        return None
    if record.multi_label:
        return Section("classes", "Labels", _lead(record, "F1 = 2·tp / (2·tp + fp + fn) of each label."), [_f1(record)])
    first = next(iter(splits.values()))
    shown = largest_classes(torch.bincount(record.data.y[first], minlength=len(record.classes)))
    counts = {
        name: confusion(record.data.y[nodes], record.prediction[nodes], shown, len(record.classes))
        for name, nodes in splits.items()
    }
    lead = _lead(record, "Rows are true classes, columns are predictions; a row adds up to 100 %.")
    parts = [_accuracy(record, counts, shown), _matrix(record, counts, shown)]
    return Section("classes", "Classes", lead, parts)


def confusion(target: Tensor, prediction: Tensor, shown: Tensor, num_classes: int) -> Tensor:
    """How many nodes of each shown class (row) were given each of them (column) or another (last column), `[k, k + 1]`.

    >>> confusion(torch.tensor([0, 0, 2]), torch.tensor([0, 1, 2]), torch.tensor([0, 2]), 3).tolist()
    [[1, 0, 1], [0, 1, 0]]
    """
    size = len(shown)
    place = torch.full((num_classes,), size)
    place[shown] = torch.arange(size)
    pairs = place[target] * (size + 1) + place[prediction]
    return torch.bincount(pairs, minlength=(size + 1) ** 2).view(size + 1, size + 1)[:size]


def largest_classes(counts: Tensor) -> Tensor:
    """The classes with the most nodes, at most thirty, in their own order."""
    return counts.argsort(descending=True, stable=True)[:MAX_CLASSES].sort().values


def _lead(record: Record, words: str) -> str:
    if len(record.classes) > MAX_CLASSES:
        words += f" The {MAX_CLASSES} largest of {len(record.classes)} are shown."
    return words


def _accuracy(record: Record, counts: dict[str, Tensor], shown: Tensor) -> Chart:
    views = {}
    for split, matrix in counts.items():
        total, right = matrix.sum(1), matrix.diagonal()
        share = (right / total.clamp(min=1)).tolist()
        text = [f"{percent(s)} of {n:,}" if n else "no node" for s, n in zip(share, total.tolist())]
        views[split] = [_bars(share, text, shown)]
    share, worst = min(zip(views[next(iter(views))][0]["x"], shown.tolist()))
    alt = f"Of the classes, {record.classes[worst]} is told worst, {percent(share)}."
    return Chart("accuracy", "Accuracy a class", alt, views, _by_class(record, shown), _height(shown))


def _matrix(record: Record, counts: dict[str, Tensor], shown: Tensor) -> Chart:
    rows = _names(record, shown)
    columns = [*rows, "others"] if len(record.classes) > len(shown) else rows
    views = {split: [_heat(matrix, rows, columns)] for split, matrix in counts.items()}
    axis = {"showgrid": False, "zeroline": False, "tickvals": list(range(len(columns))), "ticktext": columns}
    layout = {
        "xaxis": axis | {"title": {"text": "prediction"}, "tickangle": -90 if len(shown) > 12 else 0},
        "yaxis": axis | {"autorange": "reversed", "title": {"text": "true class"}},
    }
    matrix = next(iter(counts.values()))
    wrong = int(matrix.sum() - matrix.diagonal().sum())
    alt = f"Confusion matrix: {wrong:,} of {int(matrix.sum()):,} nodes are given a wrong class."
    return Chart("confusion", "Confusion matrix", alt, views, layout, max(_height(shown), 400))


def _heat(matrix: Tensor, rows: list[str], columns: list[str]) -> Trace:
    part = matrix[:, : len(columns)]
    share = (part / matrix.sum(1, keepdim=True).clamp(min=1)).tolist()
    hover = "true %{customdata[0]}<br>given %{customdata[1]}<br>%{customdata[2]} nodes, %{z:.1%}<extra></extra>"
    custom = [[[a, b, f"{n:,}"] for b, n in zip(columns, row)] for a, row in zip(rows, part.tolist())]
    trace: Trace = {"type": "heatmap", "z": [[round(s, 4) for s in row] for row in share], "customdata": custom}
    trace |= {"zmin": 0, "zmax": 1, "hovertemplate": hover, "xgap": 1, "ygap": 1, "colorscale": "theme"}
    trace |= {"colorbar": {"tickformat": ".0%", "thickness": 10, "outlinewidth": 0}}
    return trace | ({"text": part.tolist(), "texttemplate": "%{text}"} if len(rows) <= 12 else {})


def _f1(record: Record) -> Chart:
    views, splits = {}, record.held_out()
    shown = largest_classes((record.data.y[next(iter(splits.values()))] > 0.5).sum(0))
    for split, nodes in splits.items():
        true, given = record.data.y[nodes] > 0.5, record.probabilities[nodes] > 0.5
        both = (true.sum(0) + given.sum(0))[shown]
        share = (2 * (true & given).sum(0)[shown] / both.clamp(min=1)).tolist()
        text = [f"{percent(s)}, {n:,} nodes" for s, n in zip(share, true.sum(0)[shown].tolist())]
        views[split] = [_bars(share, text, shown)]
    alt = "The F1 score of each label."
    return Chart("accuracy", "F1 a label", alt, views, _by_class(record, shown), _height(shown), wide=True)


def _bars(share: list[float], text: list[str], shown: Tensor) -> Trace:
    colors = [color(number) for number in shown.tolist()]
    return {
        "type": "bar",
        "orientation": "h",
        "x": [round(s, 4) for s in share],
        "y": list(range(len(share))),
        "text": text,
        "textposition": "auto",
        "insidetextanchor": "start",
        "marker": {"color": colors},
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
    }


def _by_class(record: Record, shown: Tensor) -> dict[str, Any]:
    """An axis of positions named after the classes: names may repeat or be empty, positions do not."""
    axis = {"tickvals": list(range(len(shown))), "ticktext": _names(record, shown), "showgrid": False}
    return {"xaxis": {"range": [0, 1], "tickformat": ".0%"}, "yaxis": axis | {"autorange": "reversed"}}


def _names(record: Record, shown: Tensor) -> list[str]:
    return [label(record.classes[number], 18) for number in shown.tolist()]


def _height(shown: Tensor) -> int:
    return max(300, 90 + 26 * len(shown))
