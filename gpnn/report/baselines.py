"""What plain methods reach, beside the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpnn.report.content import Section, Table
from gpnn.report.record import Record
from gpnn.text import metric_text
from gpnn.train.baselines import ABOUT
from gpnn.train.task import shown_metrics

SPLITS = {"val": "validation", "test": "test"}


def baselines(record: Record) -> Section | None:
    """The run and each plain method by the task's metrics; None where none was run."""
    if not record.baselines:
        return None
    lead = "Plain methods on the same splits: what the graph and the model are worth beside them."
    names = [
        (split, name)
        for name in shown_metrics(record.metrics)
        for split in SPLITS
        if record.metrics.get(f"{split}_{name}") is not None
    ]
    columns = ("", *(f"{SPLITS[split]} {name.replace('_', ' ')}" for split, name in names), "seconds")
    rows = [_row("this run", record.metrics, names)]
    rows += [_row(ABOUT.get(name, name), found, names) for name, found in record.baselines.items()]
    return Section("baselines", "Beside plain methods", lead, [Table("", columns, rows, wide=True)])


def _row(name: str, metrics: Mapping[str, Any], names: list[tuple[str, str]]) -> tuple[str, ...]:
    seconds = metrics.get("seconds")
    shown = [metric_text(metric, metrics.get(f"{split}_{metric}")) for split, metric in names]
    return (name, *shown, "–" if seconds is None else f"{seconds:.1f}")
