"""Nodes as points on a plane, coloured by subgraph, prediction or class: t-SNE of their states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpnn.report.counts import SPLIT_NAMES
from gpnn.report.record import MAX_LEGEND, Chart, NodeFacts, Record, Section, Trace, color, label
from gpnn.text import percent

STEPS = 300
UNKNOWN = "#b0b7bf"
_WORDS = tuple(SPLIT_NAMES.values())
BLANK: dict[str, Any] = {"visible": False, "showgrid": False, "zeroline": False}
PLANE: dict[str, Any] = {
    "layout": {"xaxis": BLANK, "yaxis": BLANK | {"scaleanchor": "x"}, "hovermode": "closest", "dragmode": "pan"},
    "height": 620,
    "wide": True,
    "choice": "colour by",
}


def states(record: Record) -> Section | None:
    """t-SNE of a sample of the nodes' states, in the colours of the drawing; None where there are none to show."""
    found = record.sample
    if found is None or len(found.states) < 4:
        return None
    places = embed(found.states.float().cpu().numpy(), record.seed)
    if places is None:
        return None
    number = len(found.states)
    lead = f"t-SNE (van der Maaten and Hinton 2008) of the {found.name}"
    lead += f" of {number:,} nodes drawn at random." if number < found.num_nodes else " of all nodes."
    lead += " Near points are alike; distances between far groups mean little."
    views = coloured_points(found.facts)
    first = [name for name in ("true class", "prediction") if name in views][:1]
    views = {name: views[name] for name in [*first, *(name for name in views if name not in first)]}
    where = placed_points(found.facts, places)
    chart = Chart("tsne", "t-SNE", f"t-SNE of {number:,} nodes.", views, points=where, **PLANE)
    return Section("states", "States", lead, [chart])


def embed(states: np.ndarray, seed: int) -> np.ndarray | None:
    """Positions [n, 2] by t-SNE from 32 principal components; None of states that are all alike or not finite."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    if not np.isfinite(states).all() or np.ptp(states, axis=0).max() < 1e-9:
        return None
    with threadpool_limits(1):  # two threads on busy cores wait for each other, and sums would depend on them
        if states.shape[1] > 32:
            states = PCA(min(32, len(states)), random_state=seed).fit_transform(states)
        start = "pca" if states.shape[1] > 1 else "random"
        perplexity = min(30.0, (len(states) - 1) / 3)
        return TSNE(perplexity=perplexity, init=start, max_iter=STEPS, random_state=seed, n_jobs=1).fit_transform(
            states
        )


def coloured_points(nodes: NodeFacts, radius: float = 6.0) -> dict[str, list[Trace]]:
    """The traces of some nodes, one view per colouring; where they lie is the chart's `points`.

    Args:
        nodes: which nodes.
        radius: size of a mark in pixels.
    """
    return {name: _traces(groups, names, radius) for name, (groups, names) in _colourings(nodes).items()}


def placed_points(nodes: NodeFacts, places: np.ndarray) -> dict[str, list[Any]]:
    """Where n nodes lie, `[n, 2]`, and what one reads over them: the `points` of a chart."""
    x, y = places.astype(np.float64).round(3).T.tolist()
    return {"x": x, "y": y, "text": hover_texts(nodes)}


def hover_texts(nodes: NodeFacts) -> list[str]:
    """What one reads over each node: its id, subgraph, prediction, class and split."""
    confidence, top = nodes.probabilities.max(1)
    lines = [[f"<b>{label(name)}</b>"] for name in nodes.names]
    if nodes.parts is not None:
        for line, part in zip(lines, nodes.parts.tolist()):
            line.append(f"subgraph {part}")
    if nodes.numbers is not None:
        shown = [
            (f"prediction {number:.4g} ({low:.4g} to {high:.4g})", "unknown" if true != true else f"{true:.4g}")
            for true, number, low, high in nodes.numbers.tolist()
        ]
    else:
        given = [
            f"{label(nodes.classes[each])} ({percent(sure)})" for each, sure in zip(top.tolist(), confidence.tolist())
        ]
        shown = [(f"prediction {name}", _known(true, nodes.classes)) for name, true in zip(given, nodes.y)]
    word = "class" if nodes.numbers is None else "number"
    for line, (prediction, true), split in zip(lines, shown, nodes.splits.tolist()):
        line += [prediction, f"{word} {true}" + (f", {_WORDS[split]} node" if split >= 0 else "")]
    return ["<br>".join(line) for line in lines]


def _known(true: Tensor, classes: Sequence[str]) -> str:
    """The names of one node's class, or of its labels."""
    numbers = true.reshape(-1).tolist() if not true.dim() else (true > 0.5).nonzero().flatten().tolist()
    names = [label(classes[number]) for number in numbers if number >= 0]
    return ", ".join(names) or ("none" if true.dim() and bool((true >= 0).all()) else "unknown")


def _colourings(nodes: NodeFacts) -> dict[str, tuple[Tensor, list[str]]]:
    """The group of each node, −1 for none, and the groups' names, by the name of the view."""
    classes = [label(name, 24) for name in nodes.classes]
    found = {}
    if nodes.parts is not None:
        found["subgraph"] = (nodes.parts, [f"subgraph {part}" for part in range(nodes.num_parts)])
    found["prediction"] = (nodes.prediction, classes)
    if nodes.y.dim() == 1:
        found[f"true {nodes.kind}"] = (nodes.y, classes)
        wrong = (nodes.prediction != nodes.y).long()
        found["right or wrong"] = (torch.where(nodes.y >= 0, wrong, -1), ["right", "wrong"])
    return found


def _traces(groups: Tensor, names: list[str], radius: float) -> list[Trace]:
    """One trace per group where a legend can hold them all, else one trace of all colours."""
    present = groups.unique().tolist()
    if len(present) > MAX_LEGEND:
        colors = [_color(group) for group in groups.tolist()]
        return [marks(list(range(len(colors))), colors, radius) | {"name": "nodes", "showlegend": False}]
    traces = []
    for group in present:
        members = (groups == group).nonzero().flatten().tolist()
        traces.append(marks(members, _color(group), radius) | {"name": names[group] if group >= 0 else "unknown"})
    return traces


def _color(group: int) -> str:
    return UNKNOWN if group < 0 else color(group)


def marks(members: list[int], colors: str | list[str], radius: float | list[float], line: float = 0.5) -> Trace:
    """Marks at some of a chart's `points`, with a line around each."""
    return {
        "type": "scatter",
        "mode": "markers",
        "members": members,
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": colors, "size": radius, "line": {"width": line, "color": "theme"}},
    }
