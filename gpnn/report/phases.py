"""The schedule: its phases, what they send and what they update."""

from __future__ import annotations

from collections.abc import Sequence

from gpnn.report.content import Chart, Drawing, Section, Table, color
from gpnn.report.phase_counts import PhaseRow
from gpnn.report.shared_record import AnyRecord, SharedRecord
from gpnn.schedule import draw_schedule
from gpnn.schedule.draw import MAX_NODES

MAX_PHASES = 60
MAX_PANELS = 12


def phases(record: AnyRecord) -> Section | None:
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
        {"type": "bar", "name": name, "x": names, "y": values, "marker": {"color": color(number)}}
        | {"hovertemplate": "%{x}: %{y:,} " + name + "<extra></extra>"}
        for number, (name, values) in enumerate(counts.items())
    ]
    layout = {"barmode": "group", "xaxis": {"type": "category", "showgrid": False}, "yaxis": {"tickformat": ",d"}}
    alt = "; ".join(f"{name}: {m:,} messages, {u:,} updates" for name, m, u in zip(names[:8], *counts.values()))
    return Chart("phases", f"Phases: {where.lower()}", alt, {"counts": traces}, layout)


def _picture(record: AnyRecord) -> list[Drawing]:
    if isinstance(record, SharedRecord):
        return []
    schedule = record.schedule
    if schedule.graph.num_nodes - schedule.num_virtual > MAX_NODES:
        return []
    picture = draw_schedule(schedule, partition=record.partition, seed=record.seed, max_panels=MAX_PANELS)
    return [Drawing("Who sends to whom", picture)]
