"""How well each class is told from the others: accuracy a class and the confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from gpnn.report.answers import MAX_CLASSES, Answers
from gpnn.report.content import Chart, Section, Trace, color, label, percent
from gpnn.report.shared_record import AnyRecord


def classes(record: AnyRecord) -> Section | None:
    """Accuracy a class and the confusion matrix of the held-out splits; of several labels a node, F1 a label."""
    found = record.answers
    if found is None:
        return None
    if record.multi_label:
        lead = _lead(record, "F1 = 2·tp / (2·tp + fp + fn) of each label.")
        return Section("classes", "Labels", lead, [_f1(record, found)])
    lead = _lead(record, "Rows are true classes, columns are predictions; a row adds up to 100 %.")
    parts = [_accuracy(record, found.classes, found.shown), _matrix(record, found.classes, found.shown)]
    return Section("classes", "Classes", lead, parts)


def _lead(record: AnyRecord, words: str) -> str:
    if len(record.classes) > MAX_CLASSES:
        words += f" The {MAX_CLASSES} largest of {len(record.classes)} are shown."
    return words


def _accuracy(record: AnyRecord, counts: Mapping[str, Tensor], shown: Tensor) -> Chart:
    views = {}
    for split, matrix in counts.items():
        total, right = matrix.sum(1), matrix.diagonal()
        share = (right / total.clamp(min=1)).tolist()
        text = [f"{percent(s)} of {n:,}" if n else "no node" for s, n in zip(share, total.tolist())]
        views[split] = [_bars(share, text, shown)]
    share, worst = min(zip(views[next(iter(views))][0]["x"], shown.tolist()))
    alt = f"Of the classes, {record.classes[worst]} is told worst, {percent(share)}."
    return Chart("accuracy", "Accuracy a class", alt, views, _by_class(record, shown), _height(shown))


def _matrix(record: AnyRecord, counts: Mapping[str, Tensor], shown: Tensor) -> Chart:
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


def _f1(record: AnyRecord, found: Answers) -> Chart:
    views, shown = {}, found.shown
    for split, counts in found.classes.items():
        true, given, both = counts.T
        share = (2 * both / (true + given).clamp(min=1)).tolist()
        text = [f"{percent(s)}, {n:,} nodes" for s, n in zip(share, true.tolist())]
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


def _by_class(record: AnyRecord, shown: Tensor) -> dict[str, Any]:
    """An axis of positions named after the classes: names may repeat or be empty, positions do not."""
    axis = {"tickvals": list(range(len(shown))), "ticktext": _names(record, shown), "showgrid": False}
    return {"xaxis": {"range": [0, 1], "tickformat": ".0%"}, "yaxis": axis | {"autorange": "reversed"}}


def _names(record: AnyRecord, shown: Tensor) -> list[str]:
    return [label(record.classes[number], 18) for number in shown.tolist()]


def _height(shown: Tensor) -> int:
    return max(300, 90 + 26 * len(shown))
