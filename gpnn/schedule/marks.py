"""How the nodes and edges of a panel look, and the key that explains it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpnn.schedule import svg
from gpnn.schedule.phase import Phase
from gpnn.schedule.sheet import Sheet

# Told apart by most colour-blind readers; red is kept for the cut.
PALETTE = (
    *("#4477aa", "#ee9944", "#228833", "#66ccee", "#aa3377"),
    *("#ccbb44", "#8c6d4f", "#88a0a8", "#9970ab", "#b5de8f"),
)
DASHES = ("", "6 3", "2 3", "8 3 2 3")  # by edge type
CUT, FAINT_CUT, FAINT, RIM = "#d62728", "#f3c1bd", "#d3d9e0", "#9aa5b1"


def draw_marks(sheet: Sheet, phase: Phase) -> Iterator[str]:
    """The edges that are silent, the messages, and the nodes of one phase, in that order."""
    sent = np.zeros(len(sheet.src), np.bool_)
    sent[phase.edges.numpy()] = True
    updates = np.zeros(len(sheet.labels), np.bool_)
    updates[phase.nodes.numpy()] = True
    for edge in np.flatnonzero(~sent & ~sheet.virtual).tolist():
        color = FAINT_CUT if sheet.crossing[edge] else FAINT
        yield svg.stroke(_line(sheet, edge), color, 1, _dashes(int(sheet.edge_type[edge])))
    for edge in np.flatnonzero(sent).tolist():
        color = CUT if sheet.crossing[edge] else svg.INK
        yield svg.arrow(_line(sheet, edge), color, 1.5, _dashes(int(sheet.edge_type[edge])))
    for node, updated in enumerate(updates.tolist()):
        yield _node(sheet, node, _look(int(sheet.labels[node]), "updates" if updated else "keeps"))


def draw_key(sheet: Sheet, top: float, width: float) -> tuple[list[str], float]:
    """The key, wrapped to `width`, and where it ends."""
    parts: list[str] = []
    x, y = 26.0, top
    for name, mark in _entries(sheet):
        length = 46 + 6.6 * len(name)
        if x + length > width:
            x, y = 26.0, y + 24
        parts.append(svg.element("g", mark, transform=f"translate({x:.1f},{y - 4:.1f})"))
        parts.append(svg.text(name, x + 17, y, 12))
        x += length
    return parts, y + 18


def _entries(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """What there is to explain: its name, and its mark around the origin."""
    subgraphs = sorted({int(label) for label in sheet.labels if label >= 0})
    if len(subgraphs) > 1:
        for label in subgraphs[: len(PALETTE)]:
            yield f"subgraph {label}", svg.element("circle", r=6.5, fill=_color(label))
        if len(subgraphs) > len(PALETTE):
            yield f"… {len(subgraphs)} subgraphs, colours repeat", ""
    yield "updates", svg.element("circle", r=6.5, **_look(subgraphs[0], "updates"))
    yield "keeps its state", svg.element("circle", r=6.5, **_look(subgraphs[0], "keeps"))
    line = svg.curve(np.array([-9.0, 0]), np.array([11.0, 0]), 0, 0)
    yield "message", svg.arrow(line, svg.INK, 1.5)
    types = sorted(set(sheet.edge_type[~sheet.virtual].tolist()))
    for edge_type in types[: len(DASHES)] if len(types) > 1 else []:
        yield f"edge type {edge_type}", svg.stroke(line, svg.INK, 1.5, _dashes(edge_type))
    if len(types) > len(DASHES):
        yield f"… {len(types)} edge types, lines repeat", ""
    if sheet.crossing.any():
        yield "message over the cut", svg.arrow(line, CUT, 1.5)
    if (sheet.labels < 0).any():
        yield "virtual node", svg.element("rect", x=-6, y=-6, width=12, height=12, rx=2, **_look(-1, "updates"))


def _line(sheet: Sheet, edge: int) -> svg.Line:
    start, end = sheet.positions[sheet.src[edge]], sheet.positions[sheet.dst[edge]]
    if sheet.src[edge] == sheet.dst[edge]:
        return svg.loop(start, sheet.radius, int(sheet.bend[edge]))
    return svg.curve(start, end, float(sheet.bend[edge]), sheet.radius + 2)


def _dashes(edge_type: int) -> str:
    return DASHES[edge_type % len(DASHES)]


def _node(sheet: Sheet, node: int, look: dict[str, object]) -> str:
    x, y = (float(value) for value in sheet.positions[node])
    if sheet.labels[node] < 0:
        name, side = f"v{node - int((sheet.labels >= 0).sum())}", 1.8 * sheet.radius
        shape = svg.element("rect", x=x - side / 2, y=y - side / 2, width=side, height=side, rx=3, **look)
    else:
        name, shape = str(node), svg.element("circle", cx=x, cy=y, r=sheet.radius, **look)
    size = sheet.radius * (1.05 if len(name) < 3 else 0.85)
    ink = svg.PAPER if _luminance(str(look["fill"])) < 140 else svg.INK
    return shape + svg.text(name, x, y + 0.36 * size, size, text_anchor="middle", fill=ink)


def _look(label: int, state: str) -> dict[str, object]:
    """Fill and rim of a node of subgraph `label` (-1: virtual) that "updates" or "keeps" its state."""
    if state == "updates":
        return {"fill": _color(label), "stroke": svg.INK, "stroke_width": 2.2}
    return {"fill": _pale(_color(label)), "stroke": RIM, "stroke_width": 0.8}


def _color(label: int) -> str:
    return svg.PAPER if label < 0 else PALETTE[label % len(PALETTE)]


def _channels(color: str) -> tuple[int, ...]:
    return tuple(int(color[at : at + 2], 16) for at in (1, 3, 5))


def _pale(color: str) -> str:
    return "#" + "".join(f"{round(255 - 0.3 * (255 - channel)):02x}" for channel in _channels(color))


def _luminance(color: str) -> float:
    red, green, blue = _channels(color)
    return 0.299 * red + 0.587 * green + 0.114 * blue
