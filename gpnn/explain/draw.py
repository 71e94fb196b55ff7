"""A picture of an explanation: the edges that carried a prediction, and the columns beside them, as SVG."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from gpnn.explain.explain_node import Explanation
from gpnn.schedule import draw as svg

ROW, LAYER, MARGIN, HEAD = 40.0, 168.0, 22.0, 30.0  # between nodes, between layers, at the sides, of headings
RADIUS, WIDEST, LONGEST = 9.0, 9.0, 20  # of a node, of an edge, letters of a name
BARS, NAMES = 150.0, 170.0  # longest bar of a column, and what its name takes
OWN, OTHER, LINE = "#4477aa", "#c9d2db", "#4477aa"


def draw_explanation(explanation: Explanation) -> str:
    """The listed edges, each as wide as its effect, and the listed columns as bars.

    The explained node is on the right, and every other node in a layer by the hops of listed edges to it; those that no
    listed edge joins to it are on the left.

    >>> why = Explanation("anna", "chess", 0.9, (("bo", "anna", 0.2),), (), (("age", 0.1),))
    >>> [word in draw_explanation(why) for word in ("anna", "bo → anna: 0.2", "age")]
    [True, True, True]
    """
    layers = _layers(explanation)
    tall = max([len(names) for names in layers] + [len(explanation.columns)])
    width = max(1, len(layers)) * LAYER
    height = HEAD + max(1, tall) * ROW + MARGIN
    parts = [svg.text("edges, as wide as their effects", MARGIN, 20, 12, fill=svg.MUTED)]
    places = {}
    for number, names in enumerate(layers):
        x = width - LAYER / 2 - number * LAYER
        top = HEAD + (height - MARGIN - HEAD - len(names) * ROW) / 2
        for row, name in enumerate(names):
            places[name] = np.array([x, top + (row + 0.4) * ROW])
    parts += _edges(explanation, places) + _nodes(explanation, places)
    if explanation.columns:
        parts += _bars(explanation, width + MARGIN)
        width += MARGIN + NAMES + BARS + 60
    return svg.document(parts, width + MARGIN, height, f"What carried the prediction. {explanation.title}")


def _layers(explanation: Explanation) -> list[list[str]]:
    """The explained node, the others by their hops from it along listed edges either way, then those without a way."""
    joined: dict[str, set[str]] = {str(explanation.node): set()}
    for source, target, _ in explanation.edges:
        for one, other in ((str(source), str(target)), (str(target), str(source))):
            joined.setdefault(one, set()).add(other)
    layers, seen = [[str(explanation.node)]], {str(explanation.node)}
    while front := [name for name in joined if name not in seen and joined[name] & {*layers[-1]}]:
        layers.append(front)
        seen |= {*front}
    left = [name for name in joined if name not in seen]
    return [*layers, left] if left else layers


def _edges(explanation: Explanation, places: dict[str, np.ndarray]) -> list[str]:
    most = max([abs(effect) for *_, effect in explanation.edges], default=0.0) or 1.0
    parts = []
    for source, target, effect in explanation.edges:
        start, end = places[str(source)], places[str(target)]
        bend = 0.0 if start[0] != end[0] else 46.0  # within a layer it goes around the names between
        line = svg.loop(start, RADIUS, 0) if source == target else svg.curve(start, end, bend, RADIUS + 3)
        share = max(0.0, effect) / most
        title = svg.element("title", escape(f"{source} → {target}: {effect:.3g}"))
        parts.append(
            svg.element("g", title, svg.arrow(line, LINE, 1.0 + (WIDEST - 1) * share), opacity=0.35 + 0.5 * share)
        )
    return parts


def _nodes(explanation: Explanation, places: dict[str, np.ndarray]) -> list[str]:
    parts = []
    for name, (x, y) in places.items():
        own = name == str(explanation.node)
        circle = svg.element("circle", cx=float(x), cy=float(y), r=RADIUS, fill=OWN if own else OTHER, stroke=svg.INK)
        weight = {"font_weight": "bold"} if own else {}
        label = svg.text(_short(name), float(x), float(y) + RADIUS + 12, 11, text_anchor="middle", **weight)
        parts.append(svg.element("g", svg.element("title", escape(name)), circle, label))
    return parts


def _bars(explanation: Explanation, left: float) -> list[str]:
    parts = [svg.text("columns of the node, by their effects", left, 20, 12, fill=svg.MUTED)]
    most = max(abs(effect) for _, effect in explanation.columns) or 1.0
    for row, (name, effect) in enumerate(explanation.columns):
        y, length = HEAD + row * ROW + 12, BARS * max(0.0, effect) / most
        bar = svg.element("rect", x=left + NAMES, y=y - 9, width=length, height=18, rx=2, fill=OWN)
        label = svg.text(_short(name), left + NAMES - 8, y + 4, 12, text_anchor="end")
        value = svg.text(f"{effect:.3g}", left + NAMES + length + 6, y + 4, 11, fill=svg.MUTED)
        parts.append(svg.element("g", svg.element("title", escape(str(name))), bar, label, value))
    return parts


def _short(name: Any) -> str:
    words = str(name)
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
