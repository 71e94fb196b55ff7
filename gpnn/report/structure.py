"""The partition and the schedule: subgraphs and what is cut, phases and what they send."""

from __future__ import annotations

from collections.abc import Sequence

from gpnn.partition import Quality
from gpnn.report.content import Chart, Drawing, Section, Table, Trace, bars, color
from gpnn.report.counts import PhaseRow
from gpnn.report.record import Record
from gpnn.schedule import draw_schedule
from gpnn.schedule.draw import MAX_NODES
from gpnn.text import percent

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
