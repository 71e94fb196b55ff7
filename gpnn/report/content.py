"""What a report is made of: sections of charts, tables, drawings and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from gpnn.schedule.draw import PALETTE

Trace = dict[str, Any]
MUTED = "#7b8794"  # readable on white and on black
MAX_LEGEND = 12


@dataclass(frozen=True)
class Chart:
    """One chart, as plotly.js takes it; several views of it are offered as a choice.

    Attributes:
        name: its id in the HTML.
        title: heading.
        alt: what it shows, in words, for who cannot see it.
        views: the traces of each view, by the view's name.
        layout: plotly's layout without colours, which follow the report's theme.
        height: in pixels.
        wide: whether it takes the whole width of the report.
        choice: what the views differ in, for example "colour by".
        points: `x`, `y` and `text` of points that traces name by position, markers in `members`, lines in `ends`.
        ground: traces that lie under those of every view.
    """

    name: str
    title: str
    alt: str
    views: Mapping[str, Sequence[Trace]]
    layout: Mapping[str, Any] = field(default_factory=dict)
    height: int = 340
    wide: bool = False
    choice: str = "show"
    points: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    ground: Sequence[Trace] = ()


@dataclass(frozen=True)
class Table:
    """A table with a heading; the first column names the row, the others hold numbers or, if `text`, text to read."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    wide: bool = False
    text: bool = False


@dataclass(frozen=True)
class Search:
    """A table of text to search in, whose rows come in groups of which one is shown; the first column names the row."""

    title: str
    columns: Sequence[str]
    groups: Mapping[str, Sequence[Sequence[str]]]


@dataclass(frozen=True)
class Drawing:
    """A picture in SVG that the project drew itself; the markup is trusted, so user text in it must be escaped."""

    title: str
    svg: str


@dataclass(frozen=True)
class Listing:
    """Text to read or copy: a file or a command."""

    title: str
    text: str


@dataclass(frozen=True)
class Section:
    """One part of the report.

    Attributes:
        name: its id in the HTML.
        title: heading.
        lead: what the reader sees here, and what was sampled or left out.
        parts: what it holds, in order.
        folded: whether its parts are shown on demand.
    """

    name: str
    title: str
    lead: str
    parts: Sequence[Chart | Table | Search | Drawing | Listing]
    folded: bool = False


def color(number: int) -> str:
    """The colour of a subgraph or class; colours repeat after ten."""
    return PALETTE[number % len(PALETTE)]


def bars(x: Sequence[Any], y: Sequence[Any], colors: str | Sequence[str], hover: str, **more: Any) -> Trace:
    """Bars, over which one reads `hover`; `more` of plotly's own attributes."""
    reads = {"marker": {"color": colors}, "hovertemplate": hover + "<extra></extra>"}
    return {"type": "bar", "x": x, "y": y, **reads, **more}


def horizontal_bars(values: Sequence[float | None], places: Sequence[Any], colors: Sequence[str], hover: str) -> Trace:
    """Bars from the left, one per place of the vertical axis."""
    return bars(values, places, colors, hover, orientation="h", showlegend=False)


def diagonal(low: float, high: float) -> Trace:
    """The dotted line of points whose coordinates are equal."""
    line = {"color": MUTED, "dash": "dot", "width": 1.5}
    return {"type": "scatter", "mode": "lines", "x": [low, high], "y": [low, high], "line": line, "hoverinfo": "skip"}


def label(text: object, limit: int = 40) -> str:
    """The user's text as a chart shows it: literally, since plotly reads markup, and not too long.

    >>> label("<b>x</b>")
    '&lt;b&gt;x&lt;/b&gt;'
    """
    words = str(text)
    return escape(words if len(words) <= limit else words[: limit - 1] + "…", quote=False)
