"""Time and memory: what one training pass costs, by phase."""

from __future__ import annotations

from gpnn.report.content import Chart, Section, Table, Trace, color, size
from gpnn.report.cost import Cost
from gpnn.report.shared_record import AnyRecord, SharedRecord


def time_memory(record: AnyRecord) -> Section | None:
    """Seconds and kept bytes of one training pass by phase; None where they were not measured."""
    cost = record.cost
    if cost is None:
        return None
    times = [row["seconds"] for row in record.history if row.get("seconds") is not None]
    lead = f"One forward and backward pass, measured after training on {cost.device}"
    lead += f" with {cost.threads} thread{'s' if cost.threads > 1 else ''}." if cost.device == "cpu" else "."
    if isinstance(record, SharedRecord):
        lead += f" The first of {len(record.shares)} processes: its nodes, and its waiting for the others."
    lead += " Kept: what the forward pass keeps for the backward pass, each tensor once."
    rows: list[tuple[str, str]] = [
        ("forward pass", f"{sum(cost.seconds.values()):.4g} s"),
        ("backward pass", f"{cost.backward:.4g} s"),
    ]
    if times:
        rows.append(("median epoch", f"{sorted(times)[len(times) // 2]:.4g} s"))
        rows.append(("all epochs", f"{sum(times):.4g} s"))
    rows.append(("kept for the backward pass", size(sum(cost.kept.values()))))
    if cost.peak is not None:
        rows.append(
            ("peak of the process" if cost.device == "cpu" else "peak of the device's tensors", size(cost.peak))
        )
    return Section("cost", "Time and memory", lead, [_chart(cost), Table("In all", ("", "value"), rows)])


def _chart(cost: Cost) -> Chart:
    names = [*cost.seconds, "backward pass"]
    seconds = [*cost.seconds.values(), cost.backward]
    order = {name: number for number, name in enumerate(names)}
    views = {"time": [_bars(names, [1000 * s for s in seconds], order, "%{x:.3g} ms")]}
    kept = {name: value for name, value in cost.kept.items() if value}
    if kept:
        texts = [size(value) for value in kept.values()]
        bars = _bars(list(kept), [value / 2**20 for value in kept.values()], order, "%{text} kept")
        views["memory"] = [bars | {"text": texts}]
    layout = {
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False},
        "xaxis": {"rangemode": "tozero"},
    }
    alt = "; ".join(f"{name}: {1000 * s:.3g} ms" for name, s in zip(names, seconds))
    return Chart("cost-phases", "By phase (milliseconds, MiB)", alt, views, layout, max(260, 90 + 44 * len(names)))


def _bars(names: list[str], values: list[float], order: dict[str, int], hover: str) -> Trace:
    return {
        "type": "bar",
        "orientation": "h",
        "x": [float(f"{value:.4g}") for value in values],
        "y": names,
        "marker": {"color": [color(order[name]) for name in names]},
        "hovertemplate": "%{y}: " + hover + "<extra></extra>",
        "showlegend": False,
    }
