"""Pictures of a schedule: one panel a phase, as in the paper's Figure 1."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from gpnn.check import check_count
from gpnn.partition import Partition
from gpnn.schedule import svg
from gpnn.schedule.marks import draw_key, draw_marks
from gpnn.schedule.phase import Phase
from gpnn.schedule.schedule import Schedule
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
    """The phases of a small graph's schedule as SVG, one panel a phase; written to `path` where one is given.

    Nodes are coloured by subgraph and have a dark rim where they update; arrows are the messages of the phase;
    edges between subgraphs are red, edge types other than 0 dashed. Virtual nodes are squares. Rounds that are all
    alike are drawn once.

    Args:
        schedule: of a graph of at most 200 nodes.
        path: file to write.
        partition: the subgraphs; None: those of the schedule itself, where it has any.
        seed: of the layout.
        max_panels: phases to draw; the picture says how many it leaves out.
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
    parts = [svg.text(heading, _MARGIN, 31, 17, font_weight="bold")]
    for at, (name, phase) in enumerate(shown):
        corner = f"translate({_MARGIN + at % columns * across:.1f},{_TOP + at // columns * down:.1f})"
        panel = _panel(sheet, name, phase, across - _GAP)
        parts.append(svg.element("g", *panel, transform=corner))
    bottom = _TOP + rows * down + 14
    if len(panels) > len(shown):
        parts.append(svg.text(f"… and {len(panels) - len(shown)} more phases", _MARGIN, bottom, 13))
        bottom += 26
    key, height = draw_key(sheet, bottom, width - _MARGIN)
    return svg.document([*parts, *key], width, height, f"Propagation schedule. {heading}")


def _panels(schedule: Schedule) -> Iterator[tuple[str, Phase]]:
    """Each phase with its name; once for all rounds where they are the same."""
    rounds = schedule.rounds[:1] if _alike(schedule) else schedule.rounds
    for number, phases in enumerate(rounds, start=1):
        for at, phase in enumerate(phases, start=1):
            where = [] if len(rounds) == 1 else [f"round {number}"]
            where += [str(at)] if len(phases) > 1 else []
            times = f" × {phase.repeat}" if phase.repeat > 1 else ""
            yield " · ".join([*where, phase.kind + times]), phase


def _panel(sheet: Sheet, name: str, phase: Phase, width: float) -> Iterator[str]:
    frame = {"width": width, "height": sheet.height + _HEADING, "rx": 8, "fill": "#fafbfc", "stroke": "#e4e7eb"}
    yield svg.element("rect", **frame)
    yield svg.text(name, 14, 21, 13, font_weight="bold")
    counts = f"{_plural(phase.edges.numel(), 'message')}, {_plural(phase.nodes.numel(), 'update')}"
    yield svg.text(counts + (" a step" if phase.repeat > 1 else ""), 14, 37, 11, fill=svg.MUTED)
    corner = f"translate({(width - sheet.width) / 2:.1f},{_HEADING:.1f})"
    yield svg.element("g", "\n", "\n".join(draw_marks(sheet, phase)), "\n", transform=corner)


def _counts(schedule: Schedule) -> str:
    equal = "equal " if _alike(schedule) and schedule.num_rounds > 1 else ""
    counts = _plural(schedule.num_messages, "message"), _plural(schedule.num_updates, "node update")
    return f"{_plural(schedule.num_rounds, f'{equal}round')}: {counts[0]}, {counts[1]}"


def _alike(schedule: Schedule) -> bool:
    return all(phases is schedule.rounds[0] for phases in schedule.rounds)


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
