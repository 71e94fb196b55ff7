"""Pictures of a schedule: one panel per phase, as in the paper's Figure 1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from gpnn.check import check_count
from gpnn.partition import Partition
from gpnn.schedule.schedule import Phase, Schedule
from gpnn.schedule.sheet import Sheet, lay_out
from gpnn.storage.atomic import write_text

MAX_NODES = 200
_HEADING, _MARGIN, _GAP, _TOP, _PAGE = 44.0, 18.0, 10.0, 50.0, 1160.0


def draw_schedule(
    schedule: Schedule,
    path: str | PathLike[str] | None = None,
    partition: Partition | None = None,
    *,
    seed: int = 0,
    max_panels: int = 24,
    title: str | None = None,
) -> str:
    """The phases of a small graph's schedule as SVG, one panel per phase; written to `path` where one is given.

    Nodes are coloured by subgraph and have a dark rim where they update; arrows are the messages of the phase;
    edges between subgraphs are red, held messages purple, edge types other than 0 dashed. Virtual nodes are squares.
    Equal rounds are drawn once.

    Args:
        schedule: of a graph of at most 200 nodes.
        path: file to write.
        partition: the subgraphs; None: those of the schedule itself, where it has any.
        seed: of the layout.
        max_panels: phases to draw; the picture states how many it omits.
        title: heading of the picture; None: the schedule's counts.

    Raises:
        ValueError: when the graph is too large to draw, or the partition is another graph's.

    >>> from gpnn import Graph
    >>> from gpnn.schedule import partitioned
    >>> chain = Graph([0, 1, 2], [1, 2, 3], num_nodes=4).to_undirected()
    >>> picture = draw_schedule(partitioned(chain, [0, 0, 1, 1], intra=2))
    >>> [heading in picture for heading in ("1 · inside × 2", "2 · cut")]
    [True, True]
    """
    num_real = schedule.graph.num_nodes - schedule.num_virtual
    if num_real > MAX_NODES:
        raise ValueError(f"A schedule can be drawn for at most {MAX_NODES} nodes. Got {num_real}.")
    check_count("max_panels", max_panels, at_least=1)
    picture = _compose(schedule, lay_out(schedule, partition, seed), max_panels, title)
    if path is not None:
        write_text(Path(path), picture)
    return picture


def _compose(schedule: Schedule, sheet: Sheet, max_panels: int, title: str | None) -> str:
    """Heading, panels in rows, what was left out, key."""
    panels = list(_panels(schedule))
    shown = panels[:max_panels]
    across, down = max(sheet.width, 190.0) + _GAP, sheet.height + _HEADING + _GAP
    rows = -(-len(shown) // max(1, int((_PAGE - 2 * _MARGIN) // across)))
    columns = -(-len(shown) // max(1, rows))  # rows of equal length
    width = max(columns * across - _GAP + 2 * _MARGIN, 640.0)
    heading = title if title is not None else _counts(schedule)
    parts = [text(heading, _MARGIN, 31, 17, font_weight="bold")]
    for at, (name, phase) in enumerate(shown):
        corner = f"translate({_MARGIN + at % columns * across:.1f},{_TOP + at // columns * down:.1f})"
        panel = _panel(sheet, name, phase, across - _GAP)
        parts.append(element("g", *panel, transform=corner))
    bottom = _TOP + rows * down + 14
    if len(panels) > len(shown):
        parts.append(text(f"… and {len(panels) - len(shown)} more phases", _MARGIN, bottom, 13))
        bottom += 26
    key, height = draw_key(sheet, bottom, width - _MARGIN)
    return document([*parts, *key], width, height, f"Propagation schedule. {heading}")


def _panels(schedule: Schedule) -> Iterator[tuple[str, Phase]]:
    """Each phase with its name; once for all rounds where they are the same."""
    rounds = schedule.rounds[:1] if _equal_rounds(schedule) else schedule.rounds
    for number, phases in enumerate(rounds, start=1):
        for at, phase in enumerate(phases, start=1):
            where = [] if len(rounds) == 1 else [f"round {number}"]
            where += [str(at)] if len(phases) > 1 else []
            times = f" × {phase.repeat}" if phase.repeat > 1 else ""
            yield " · ".join([*where, phase.kind + times]), phase.listed


def _panel(sheet: Sheet, name: str, phase: Phase, width: float) -> Iterator[str]:
    frame = {"width": width, "height": sheet.height + _HEADING, "rx": 8, "fill": "#fafbfc", "stroke": "#e4e7eb"}
    yield element("rect", **frame)
    yield text(name, 14, 21, 13, font_weight="bold")
    held = f" and {phase.num_held:,} held" if phase.num_held else ""
    counts = f"{_plural(phase.edges.numel(), 'message')}{held}, {_plural(phase.nodes.numel(), 'update')}"
    yield text(counts + (" per step" if phase.repeat > 1 else ""), 14, 37, 11, fill=MUTED)
    corner = f"translate({(width - sheet.width) / 2:.1f},{_HEADING:.1f})"
    yield element("g", "\n", "\n".join(draw_marks(sheet, phase)), "\n", transform=corner)


def _counts(schedule: Schedule) -> str:
    equal = "equal " if _equal_rounds(schedule) and schedule.num_rounds > 1 else ""
    counts = _plural(schedule.num_messages, "message"), _plural(schedule.num_updates, "node update")
    return f"{_plural(schedule.num_rounds, f'{equal}round')}: {counts[0]}, {counts[1]}"


def _equal_rounds(schedule: Schedule) -> bool:
    return all(phases is schedule.rounds[0] for phases in schedule.rounds)


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


# Most colour-blind readers can distinguish them; red is for the cut.
PALETTE = (
    *("#4477aa", "#ee9944", "#228833", "#66ccee", "#aa3377"),
    *("#ccbb44", "#8c6d4f", "#88a0a8", "#9970ab", "#b5de8f"),
)
DASHES = ("", "6 3", "2 3", "8 3 2 3")  # by edge type
CUT, HELD, FAINT_CUT, FAINT, RIM = "#d62728", "#8e44ad", "#f3c1bd", "#d3d9e0", "#9aa5b1"


def draw_marks(sheet: Sheet, phase: Phase) -> Iterator[str]:
    """The edges without a message, the messages, and the nodes of one phase, in that order."""
    sent, held = np.zeros(len(sheet.src), np.bool_), np.zeros(len(sheet.src), np.bool_)
    sent[phase.edges.numpy()] = True
    if phase.held is not None:
        held[phase.held.numpy()] = True
    updates = np.zeros(len(sheet.labels), np.bool_)
    updates[phase.nodes.numpy()] = True
    for edge in np.flatnonzero(~sent & ~held & ~sheet.virtual).tolist():
        color = FAINT_CUT if sheet.crossing[edge] else FAINT
        yield stroke(_line(sheet, edge), color, 1, _dashes(int(sheet.edge_type[edge])))
    for edge in np.flatnonzero(sent | held).tolist():
        color = HELD if held[edge] else CUT if sheet.crossing[edge] else INK
        yield arrow(_line(sheet, edge), color, 1.5, _dashes(int(sheet.edge_type[edge])))
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
        parts.append(element("g", mark, transform=f"translate({x:.1f},{y - 4:.1f})"))
        parts.append(text(name, x + 17, y, 12))
        x += length
    return parts, y + 18


def _entries(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """What there is to explain: its name, and its mark around the origin."""
    subgraphs = sorted({int(label) for label in sheet.labels if label >= 0})
    if len(subgraphs) > 1:
        for label in subgraphs[: len(PALETTE)]:
            yield f"subgraph {label}", element("circle", r=6.5, fill=_color(label))
        if len(subgraphs) > len(PALETTE):
            yield f"… {len(subgraphs)} subgraphs, colours repeat", ""
    yield "updates", element("circle", r=6.5, **_look(subgraphs[0], "updates"))
    yield "keeps its state", element("circle", r=6.5, **_look(subgraphs[0], "keeps"))
    line = curve(np.array([-9.0, 0]), np.array([11.0, 0]), 0, 0)
    yield "message", arrow(line, INK, 1.5)
    types = sorted(set(sheet.edge_type[~sheet.virtual].tolist()))
    for edge_type in types[: len(DASHES)] if len(types) > 1 else []:
        yield f"edge type {edge_type}", stroke(line, INK, 1.5, _dashes(edge_type))
    if len(types) > len(DASHES):
        yield f"… {len(types)} edge types, lines repeat", ""
    if (sheet.crossing & ~sheet.held).any():
        yield "message over the cut", arrow(line, CUT, 1.5)
    if sheet.held.any():
        yield "held: sent once, at the start of the phase", arrow(line, HELD, 1.5)
    if (sheet.labels < 0).any():
        yield "virtual node", element("rect", x=-6, y=-6, width=12, height=12, rx=2, **_look(-1, "updates"))


def _line(sheet: Sheet, edge: int) -> Curve:
    start, end = sheet.positions[sheet.src[edge]], sheet.positions[sheet.dst[edge]]
    if sheet.src[edge] == sheet.dst[edge]:
        return loop(start, sheet.radius, int(sheet.bend[edge]))
    return curve(start, end, float(sheet.bend[edge]), sheet.radius + 2)


def _dashes(edge_type: int) -> str:
    return DASHES[edge_type % len(DASHES)]


def _node(sheet: Sheet, node: int, look: dict[str, object]) -> str:
    x, y = (float(value) for value in sheet.positions[node])
    if sheet.labels[node] < 0:
        name, side = f"v{node - int((sheet.labels >= 0).sum())}", 1.8 * sheet.radius
        shape = element("rect", x=x - side / 2, y=y - side / 2, width=side, height=side, rx=3, **look)
    else:
        name, shape = str(node), element("circle", cx=x, cy=y, r=sheet.radius, **look)
    size = sheet.radius * (1.05 if len(name) < 3 else 0.85)
    ink = PAPER if _luminance(str(look["fill"])) < 140 else INK
    return shape + text(name, x, y + 0.36 * size, size, text_anchor="middle", fill=ink)


def _look(label: int, state: str) -> dict[str, object]:
    """Fill and rim of a node of subgraph `label` (-1: virtual) that "updates" or "keeps" its state."""
    if state == "updates":
        return {"fill": _color(label), "stroke": INK, "stroke_width": 2.2}
    return {"fill": _pale(_color(label)), "stroke": RIM, "stroke_width": 0.8}


def _color(label: int) -> str:
    return PAPER if label < 0 else PALETTE[label % len(PALETTE)]


def _channels(color: str) -> tuple[int, ...]:
    return tuple(int(color[at : at + 2], 16) for at in (1, 3, 5))


def _pale(color: str) -> str:
    return "#" + "".join(f"{round(255 - 0.3 * (255 - channel)):02x}" for channel in _channels(color))


def _luminance(color: str) -> float:
    red, green, blue = _channels(color)
    return 0.299 * red + 0.587 * green + 0.114 * blue


INK, MUTED, PAPER = "#1f2933", "#52606d", "#ffffff"
FONT = "Helvetica, Arial, sans-serif"
HEAD_LENGTH, HEAD_WIDTH = 8.0, 6.6


class Curve(NamedTuple):
    """A curve up to its last point, that point, and the direction in which it arrives there."""

    path: str
    tip: np.ndarray  # [2]
    heading: np.ndarray  # [2] unit vector


def element(name: str, /, *children: str, **attributes: object) -> str:
    """One element; an underscore in an attribute's name is a hyphen, numbers are rounded, values are escaped."""
    written = "".join(f" {key.replace('_', '-')}={quoteattr(_number(value))}" for key, value in attributes.items())
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def text(content: str, x: float, y: float, size: float, **attributes: object) -> str:
    """One line of text, escaped."""
    return element("text", escape(content), x=x, y=y, font_size=size, **{"fill": INK, **attributes})


def document(parts: Iterable[str], width: float, height: float, description: str) -> str:
    """A whole picture on a white ground, with a description for screen readers."""
    size = {"width": width, "height": height, "viewBox": f"0 0 {_number(width)} {_number(height)}"}
    ground = element("rect", width=width, height=height, fill=PAPER)
    body = "\n".join((element("title", escape(description)), ground, *parts))
    space = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "font-family": FONT}
    return element("svg", "\n", body, "\n", **space, **size) + "\n"


def curve(start: np.ndarray, end: np.ndarray, bend: float, gap: float) -> Curve:
    """The line from `start` to `end` that bulges by `bend` to its right and stops `gap` short of both."""
    along = _unit(end - start)
    middle = (start + end) / 2 + bend * np.array([-along[1], along[0]])
    begin, tip = start + gap * _unit(middle - start), end + gap * _unit(middle - end)
    return Curve(f"M{_point(begin)} Q{_point(middle)}", tip, _unit(end - middle))


def loop(center: np.ndarray, radius: float, number: int) -> Curve:
    """The line of a self-loop above a node; each further one is larger."""
    size = radius * (2.0 + 0.8 * number)
    begin, tip = (center + (radius + 2) * np.array([side * 0.6, -0.8]) for side in (-1, 1))
    left, right = (center + np.array([side * 0.9 * size, -1.3 * size]) for side in (-1, 1))
    return Curve(f"M{_point(begin)} C{_point(left)} {_point(right)}", tip, _unit(tip - right))


def stroke(line: Curve, color: str, width: float, dashes: str = "") -> str:
    """The line without a head, dashed where `dashes` gives lengths."""
    return _path(line, line.tip, color, width, dashes)


def arrow(line: Curve, color: str, width: float, dashes: str = "") -> str:
    """The line with a head at its tip, dashed where `dashes` gives lengths."""
    back = line.tip - HEAD_LENGTH * line.heading
    side = HEAD_WIDTH / 2 * np.array([-line.heading[1], line.heading[0]])
    head = element("path", d=f"M{_point(line.tip)} L{_point(back + side)} L{_point(back - side)} z", fill=color)
    return _path(line, line.tip - 0.7 * HEAD_LENGTH * line.heading, color, width, dashes) + head


def _path(line: Curve, stop: np.ndarray, color: str, width: float, dashes: str) -> str:
    dashed = {"stroke_dasharray": dashes} if dashes else {}
    return element("path", d=f"{line.path} {_point(stop)}", fill="none", stroke=color, stroke_width=width, **dashed)


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


def _point(at: np.ndarray) -> str:
    return f"{_number(float(at[0]))},{_number(float(at[1]))}"


def _number(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
