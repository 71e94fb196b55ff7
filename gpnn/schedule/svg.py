"""The few SVG shapes that a picture of a schedule is made of; heads are plain shapes that any viewer shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np

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
