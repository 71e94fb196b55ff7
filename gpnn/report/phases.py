"""The schedule: its phases, what they send and what they update."""

from __future__ import annotations

from gpnn.report.content import Chart, Drawing, Section, Table, color
from gpnn.report.record import Record
from gpnn.schedule import Phase, Schedule, draw_schedule
from gpnn.schedule.draw import MAX_NODES

MAX_PHASES = 60
MAX_PANELS = 12


def phases(record: Record) -> Section | None:
    """Messages and updates of each phase, and for a small graph its picture; None of a schedule without rounds."""
    schedule = record.schedule
    if not schedule.rounds:
        return None
    alike = all(each is schedule.rounds[0] for each in schedule.rounds)
    shown = schedule.rounds[0] if alike else tuple(phase for each in schedule.rounds for phase in each)
    lead = (
        f"{schedule.num_rounds:,} {'equal ' if alike and schedule.num_rounds > 1 else ''}rounds send "
        f"{schedule.num_messages:,} messages and do {schedule.num_updates:,} node updates in a forward pass."
    )
    if len(shown) > MAX_PHASES:
        lead += f" The first {MAX_PHASES} of {len(shown):,} phases are shown."
    where = "One round" if alike else "All rounds"
    table = Table(
        where, ("phase", "steps", "blocks", "messages", "updates"), [_row(phase) for phase in shown[:MAX_PHASES]]
    )
    return Section(
        "schedule", "Schedule", lead, [_chart(shown[:MAX_PHASES], where), table, *_picture(record, schedule)]
    )


def _row(phase: Phase) -> tuple[str, int, int, int, int]:
    return phase.kind, phase.repeat, phase.num_blocks, phase.num_messages, phase.num_updates


def _chart(shown: tuple[Phase, ...], where: str) -> Chart:
    names = [
        f"{number} · {phase.kind}" + (f" × {phase.repeat}" if phase.repeat > 1 else "")
        for number, phase in enumerate(shown, 1)
    ]
    counts = {"messages": [phase.num_messages for phase in shown], "updates": [phase.num_updates for phase in shown]}
    traces = [
        {"type": "bar", "name": name, "x": names, "y": values, "marker": {"color": color(number)}}
        | {"hovertemplate": "%{x}: %{y:,} " + name + "<extra></extra>"}
        for number, (name, values) in enumerate(counts.items())
    ]
    layout = {"barmode": "group", "xaxis": {"type": "category", "showgrid": False}, "yaxis": {"tickformat": ",d"}}
    alt = "; ".join(f"{name}: {m:,} messages, {u:,} updates" for name, m, u in zip(names[:8], *counts.values()))
    return Chart("phases", f"Phases: {where.lower()}", alt, {"counts": traces}, layout)


def _picture(record: Record, schedule: Schedule) -> list[Drawing]:
    if schedule.graph.num_nodes - schedule.num_virtual > MAX_NODES:
        return []
    picture = draw_schedule(schedule, partition=record.partition, seed=record.seed, max_panels=MAX_PANELS)
    return [Drawing("Who sends to whom", picture)]
