"""What the run was: its notes, partition, schedule, configuration and environment, and how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from gpnn.partition import Quality
from gpnn.report.counts import PhaseRow
from gpnn.report.record import Chart, Drawing, Listing, Record, Section, Table, Trace, bars, color
from gpnn.schedule import draw_schedule
from gpnn.schedule.draw import MAX_NODES
from gpnn.text import percent

HIDDEN = ("command", "packages", "settings")  # shown in places of their own


def configuration(record: Record) -> Section:
    """The run's settings, each "auto" replaced by what was chosen."""
    lead = "Every setting of the run; what was left to choose stands as it was chosen."
    return Section("configuration", "Configuration", lead, [Listing("config.toml", record.config)], folded=True)


def environment(record: Record) -> Section:
    """Versions and machine."""
    packages = record.environment.get("packages", {})
    machine = {key: value for key, value in record.environment.items() if key not in HIDDEN}
    parts = [
        Table(title, ("", ""), _rows(values), text=True)
        for title, values in (("Machine", machine), ("Packages", packages))
        if values
    ]
    return Section("environment", "Environment", "Where the run took place.", parts, folded=True)


def reproduce(record: Record) -> Section:
    """The commands that make the run again."""
    version = record.environment.get("gpnn", "")
    lead = (
        "The same seed on the same machine gives the same bits. On another machine, or with other versions, sums are "
        "rounded differently."
    )
    start = "gpnn"
    if len(record.shares) > 1:
        start = f"torchrun --nproc-per-node {len(record.shares)} -m gpnn"
    again = f"{start} train --config config.toml --out again"
    parts = [Listing(f"With gpnn {version} installed and the configuration above saved as config.toml", again)]
    if record.environment.get("command"):
        command = command_line(record.environment["command"])
        parts.append(Listing("The command it was", start + command.removeprefix("gpnn")))
    command = "gpnn report " + shlex.quote(record.run)
    return Section("reproduce", "Reproduce", lead, [*parts, Listing("This report, written again", command)])


def command_line(words: list[str]) -> str:
    """The command as one types it.

    >>> command_line(["/usr/bin/gpnn", "train", "my graph"])
    "gpnn train 'my graph'"
    """
    first, *rest = words
    name = PurePath(first).name
    return shlex.join(["gpnn" if name == "__main__.py" else name, *rest])


def _rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key, "–" if value is None else str(value)) for key, value in values.items()]


def notes(record: Record) -> Section | None:
    """Every note with the setting that mends it; None where there are none."""
    if not record.notes:
        return None
    lead = "What was decided on your behalf, and what of the data this run does not use."
    rows = [(note.what, note.setting) for note in record.notes]
    return Section("notes", "Warnings", lead, [Table("", ("note", "what mends it"), rows, wide=True, text=True)])


MAX_BARS = 200
MAX_PHASES = 60
MAX_PANELS = 12


def subgraphs(record: Record) -> Section | None:
    """Nodes, halo and training labels of each subgraph, and what the cut costs; None without a partition."""
    quality = record.quality
    if quality is None:
        return None
    lead = (
        f"{quality.num_parts:,} subgraphs; {percent(quality.edge_cut)} of the edges run between them. The halo of a "
        "subgraph is the distinct nodes outside that send into it: rows to fetch before a cut phase."
    )
    if quality.num_parts > MAX_BARS:
        lead += f" Bars show the {MAX_BARS} largest."
    rows = [(name, value) for name, value in quality.summary().items() if value is not None]
    return Section(
        "partition", "Partition", lead, [_bars(quality), Table("The cut and the balance", ("", "value"), rows)]
    )


def _bars(quality: Quality) -> Chart:
    order = sorted(range(quality.num_parts), key=lambda part: -quality.sizes[part])[:MAX_BARS]
    columns = {"nodes": quality.sizes, "halo": quality.halo}
    views = {
        "nodes and halo": [_bar(name, number, order, values) for number, (name, values) in enumerate(columns.items())]
    }
    views["edge ends"] = [_bar("edge ends", 2, order, quality.edge_ends)]
    if quality.train_labels is not None:
        views["training labels"] = [_bar("training labels", 4, order, quality.train_labels)]
    layout = {
        "barmode": "group",
        "xaxis": {"type": "category", "title": {"text": "subgraph, largest first"}, "showgrid": False},
        "yaxis": {"tickformat": ",d"},
    }
    largest = max(quality.sizes)
    alt = f"The largest subgraph has {largest:,} nodes, {quality.balance:.2f} times the mean; "
    alt += f"the largest halo is {max(quality.halo):,}."
    return Chart("sizes", "Subgraphs", alt, views, layout)


def _bar(name: str, number: int, order: list[int], values: tuple[int, ...]) -> Trace:
    shown = [values[part] for part in order]
    return bars([str(part) for part in order], shown, color(number), "subgraph %{x}: %{y:,} " + name, name=name)


def phases(record: Record) -> Section | None:
    """Messages and updates of each phase, and for a small graph its picture; None of a schedule without rounds."""
    found = record.phases
    if not found.num_rounds:
        return None
    shown = found.rows[:MAX_PHASES]
    lead = (
        f"{found.num_rounds:,} {'equal ' if found.alike and found.num_rounds > 1 else ''}rounds send "
        f"{found.num_messages:,} messages and do {found.num_updates:,} node updates in a forward pass."
    )
    if len(found.rows) > MAX_PHASES:
        lead += f" The first {MAX_PHASES} of {len(found.rows):,} phases are shown."
    where = "One round" if found.alike else "All rounds"
    table = Table(where, ("phase", "steps", "blocks", "messages", "updates"), shown)
    return Section("schedule", "Schedule", lead, [_chart(shown, where), table, *_picture(record)])


def _chart(shown: Sequence[PhaseRow], where: str) -> Chart:
    names = [
        f"{number} · {row.kind}" + (f" × {row.repeat}" if row.repeat > 1 else "") for number, row in enumerate(shown, 1)
    ]
    counts = {"messages": [row.messages for row in shown], "updates": [row.updates for row in shown]}
    traces = [
        bars(names, values, color(number), "%{x}: %{y:,} " + name, name=name)
        for number, (name, values) in enumerate(counts.items())
    ]
    layout = {"barmode": "group", "xaxis": {"type": "category", "showgrid": False}, "yaxis": {"tickformat": ",d"}}
    alt = "; ".join(f"{name}: {m:,} messages, {u:,} updates" for name, m, u in zip(names[:8], *counts.values()))
    return Chart("phases", f"Phases: {where.lower()}", alt, {"counts": traces}, layout)


def _picture(record: Record) -> list[Drawing]:
    found = record.small
    if found is None or found.graph.num_nodes > MAX_NODES:
        return []
    picture = draw_schedule(found.schedule, partition=found.partition, seed=record.seed, max_panels=MAX_PANELS)
    return [Drawing("Who sends to whom", picture)]
