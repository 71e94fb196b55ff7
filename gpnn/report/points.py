"""Nodes as points on a plane, coloured by subgraph, by prediction or by class, with a text on hover."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpnn.report.content import MAX_LEGEND, Trace, color, label, percent
from gpnn.report.record import SPLIT_NAMES, Record

UNKNOWN = "#b0b7bf"
_WORDS = tuple(SPLIT_NAMES.values())


def coloured_points(record: Record, nodes: Tensor, radius: float = 6.0) -> dict[str, list[Trace]]:
    """The traces of some nodes, one view a colouring; where they lie is the chart's `points`.

    Args:
        record: the run.
        nodes: which nodes, `[n]`.
        radius: size of a mark in pixels.
    """
    found = _colourings(record, nodes)
    return {name: _traces(groups, names, radius) for name, (groups, names) in found.items()}


def placed_points(record: Record, nodes: Tensor, places: np.ndarray) -> dict[str, list[Any]]:
    """Where the nodes lie and what one reads over them: the `points` of a chart.

    Args:
        record: the run.
        nodes: which nodes, `[n]`.
        places: where they lie, `[n, 2]`.
    """
    x, y = places.astype(np.float64).round(3).T.tolist()
    return {"x": x, "y": y, "text": hover_texts(record, nodes)}


def hover_texts(record: Record, nodes: Tensor) -> list[str]:
    """What one reads over each node: its id, subgraph, prediction, class and split."""
    confidence, top = record.probabilities[nodes].max(1)
    classes = record.classes
    lines = [[f"<b>{label(name)}</b>"] for name in record.node_names(nodes)]
    if record.partition is not None:
        for line, part in zip(lines, record.partition.labels[nodes].tolist()):
            line.append(f"subgraph {part}")
    for line, given, sure in zip(lines, top.tolist(), confidence.tolist()):
        line.append(f"prediction {label(classes[given])} ({percent(sure)})")
    splits = _splits(record)[nodes].tolist()
    for line, true, split in zip(lines, record.data.y[nodes], splits):
        line.append(f"class {_known(true, classes)}" + (f", {_WORDS[split]} node" if split >= 0 else ""))
    return ["<br>".join(line) for line in lines]


def _known(true: Tensor, classes: list[str]) -> str:
    """The names of one node's class, or of its labels."""
    numbers = true.reshape(-1).tolist() if not true.dim() else (true > 0.5).nonzero().flatten().tolist()
    names = [label(classes[number]) for number in numbers if number >= 0]
    return ", ".join(names) or ("none" if true.dim() and bool((true >= 0).all()) else "unknown")


def _splits(record: Record) -> Tensor:
    """The split of each node as a position in SPLIT_NAMES, −1 for none, `[N]`."""
    splits = torch.full((record.data.num_nodes,), -1)
    for number, name in enumerate(SPLIT_NAMES):
        splits[record.split(name)] = number
    return splits


def _colourings(record: Record, nodes: Tensor) -> dict[str, tuple[Tensor, list[str]]]:
    """The group of each node, −1 for none, and the groups' names, by the name of the view."""
    classes = [label(name, 24) for name in record.classes]
    found = {}
    if record.partition is not None:
        parts = [f"subgraph {part}" for part in range(record.partition.num_parts)]
        found["subgraph"] = (record.partition.labels[nodes], parts)
    found["prediction"] = (record.prediction[nodes], classes)
    if not record.multi_label:
        found["true class"] = (record.data.y[nodes], classes)
        wrong = (record.prediction[nodes] != record.data.y[nodes]).long()
        found["right or wrong"] = (torch.where(record.data.y[nodes] >= 0, wrong, -1), ["right", "wrong"])
    return found


def _traces(groups: Tensor, names: list[str], radius: float) -> list[Trace]:
    """A trace a group where a legend can hold them all, else one trace of all colours."""
    present = groups.unique().tolist()
    if len(present) > MAX_LEGEND:
        colors = [_color(group) for group in groups.tolist()]
        return [_trace("nodes", colors, list(range(len(colors))), radius) | {"showlegend": False}]
    traces = []
    for group in present:
        members = (groups == group).nonzero().flatten().tolist()
        traces.append(_trace(names[group] if group >= 0 else "unknown", _color(group), members, radius))
    return traces


def _color(group: int) -> str:
    return UNKNOWN if group < 0 else color(group)


def _trace(name: str, colors: str | list[str], members: list[int], radius: float) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "members": members,
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": colors, "size": radius, "line": {"width": 0.5, "color": "theme"}},
    }
