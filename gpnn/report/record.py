"""What a report is made of: the record of one run's facts, and sections of charts, tables, drawings and text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gpnn.explain import Explanation
from gpnn.graph import Graph
from gpnn.partition import Partition, Quality
from gpnn.race import RaceRecord
from gpnn.report.counts import PhaseCounts, PredictionCounts, Quotient
from gpnn.schedule import Schedule
from gpnn.schedule.draw import PALETTE
from gpnn.train.notes import Note

if TYPE_CHECKING:
    from gpnn.report.cost import Cost

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
    """A picture in SVG that the project drew itself; the markup is trusted, so user text in it must be escaped.

    `table` has what it shows in numbers, to be unfolded.
    """

    title: str
    svg: str
    table: Table | None = None


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


@dataclass(frozen=True, eq=False)
class NodeFacts:
    """What is known of n nodes.

    Attributes:
        names: the user's ids, or numbers.
        classes: the name of each class, of all C.
        probabilities: of each class, `[n, C]`.
        y: class, `[n]`, negative where unknown; or labels, `[n, C]`.
        splits: split of each as a position in `SPLIT_NAMES`, −1 for none, `[n]`.
        parts: the subgraph of each, `[n]`, or None.
        num_parts: number of subgraphs there are.
        kind: what a class is called: "class", or "range" where numbers are predicted.
        numbers: true number, prediction and the ends of its interval, `[n, 4]`, or None for classes.
        degrees: edges of each, `[n]`, or None.
    """

    names: Sequence[str]
    classes: Sequence[str]
    probabilities: Tensor
    y: Tensor
    splits: Tensor
    parts: Tensor | None = None
    num_parts: int = 0
    kind: str = "class"
    numbers: Tensor | None = None
    degrees: Tensor | None = None

    def map_rows(self, names: Sequence[str], rows: Callable[[Tensor], Tensor]) -> NodeFacts:
        """The facts of other nodes, of which `rows` gives what a tensor holds of them."""
        of_nodes = ("probabilities", "y", "splits", "parts", "numbers", "degrees")
        given = {name: getattr(self, name) for name in of_nodes}
        tensors: dict[str, Any] = {name: None if value is None else rows(value) for name, value in given.items()}
        return replace(self, names=names, **tensors)

    @property
    def prediction(self) -> Tensor:
        """The most probable class of each, `[n]`."""
        return self.probabilities.argmax(1)


@dataclass(frozen=True, eq=False)
class Notable:
    """Nodes worth a look.

    Attributes:
        facts: what is known of them.
        lists: by the name of a list, the places in `facts` of its nodes, the first ones first.
    """

    facts: NodeFacts
    lists: Mapping[str, list[int]]


@dataclass(frozen=True, eq=False)
class Sample:
    """Some nodes and their states.

    Attributes:
        facts: what is known of the n nodes.
        states: their states, `[n, d]`.
        name: what these states are.
        num_nodes: how many nodes there are in all.
    """

    facts: NodeFacts
    states: Tensor
    name: str
    num_nodes: int


@dataclass(frozen=True, eq=False)
class SmallGraph:
    """A graph that can be drawn node by node: one process holds it, and it has few nodes.

    Attributes:
        graph: nodes and edges.
        facts: what is known of every node.
        partition: the subgraphs, or None.
        schedule: which messages are sent when.
    """

    graph: Graph
    facts: NodeFacts
    partition: Partition | None
    schedule: Schedule


@dataclass(frozen=True, eq=False)
class Record:
    """One finished run, trained by one process or by several: counts over all of them, and a sample of the nodes.

    Attributes:
        name: the dataset's name.
        run: the run folder's name.
        metrics: the final metrics.
        history: one record per epoch.
        config: the configuration as TOML.
        environment: versions and machine.
        seed: of samples and layouts.
        classes: the name of each class.
        multi_label: whether a node has several labels.
        phases: messages and updates of the schedule.
        notable: nodes worth a look.
        predictions: how the held-out nodes were classified, or None where none is labelled or numbers were predicted.
        numbers: true numbers, predictions and intervals of some held-out nodes, `[m, 4]`, by split; None for classes.
        quality: edge cut and balance of the partition, or None without one.
        quotient: the graph by its subgraphs, or None without a partition.
        sample: some nodes and their states, or None where these were not computed.
        cost: time and memory of one pass in rank 0, or None where it was not measured.
        shares: what each process holds, by rank, where the graph is divided among processes; else empty.
        small: the whole graph where it can be drawn node by node, else None.
        notes: what was decided on the user's behalf, and what is not used.
        race: the recipes that were tried before, or None where there was no race.
        baselines: the metrics of plain methods, by name; empty where none was run.
        explanations: why some nodes get their classes, each with whether that is right.
    """

    name: str
    run: str
    metrics: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    config: str
    environment: Mapping[str, Any]
    seed: int
    classes: Sequence[str]
    multi_label: bool
    phases: PhaseCounts
    notable: Notable
    predictions: PredictionCounts | None = None
    numbers: Mapping[str, Tensor] | None = None
    quality: Quality | None = None
    quotient: Quotient | None = None
    sample: Sample | None = None
    cost: Cost | None = None
    shares: Sequence[Mapping[str, int]] = ()
    small: SmallGraph | None = None
    notes: Sequence[Note] = ()
    race: RaceRecord | None = None
    baselines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    explanations: Sequence[tuple[str, Explanation]] = ()
