"""What a race tried: each recipe's validation metric by rung, what it cost, and why one of them was kept."""

from __future__ import annotations

from gpnn.race import RaceRecord
from gpnn.race.record import FRACTIONS
from gpnn.report.content import Section, Table
from gpnn.report.record import Record
from gpnn.text import metric_text
from gpnn.train.blend import Blend
from gpnn.train.metrics import merit


def race(record: Record) -> Section | None:
    """A row per recipe; None where there was no race."""
    if record.race is None or not record.race.finalists:
        return None
    raced = record.race
    best, metric = raced.finalists[0], raced.metric.replace("_", " ")
    how = "as measured" if raced.measured else "by the sizes of graph and model"
    lead = f"{len(raced.costs)} recipes were tried on the validation nodes, within {raced.budget:,.0f} seconds {how}; "
    lead += f"after each rung the better ones went on. {best} was kept: no other has a better validation {metric}."
    if raced.blend is not None and raced.blend.gain is not None:
        lead += f" {_blend(raced, raced.blend)}"
    rungs = [f"rung {rung + 1}" for rung in range(len(FRACTIONS))]
    columns = ("recipe", *rungs, "epochs", "best epoch", "seconds", "ended")
    rows = [_row(raced, name) for name in ranking(raced)]
    return Section("race", "What was tried", lead, [Table(f"Validation {metric}", columns, rows, wide=True)])


def _blend(raced: RaceRecord, blend: Blend) -> str:
    """What became of a blend of the finalists, in a sentence."""
    gain = f"{blend.gain:+.4f} ± {blend.error or 0.0:.4f} by cross-fitting"
    if not blend.weights:
        return f"A blend of the finalists would gain {gain}, less than its standard error, and is not kept."
    parts = " and ".join(f"{name} ({weight:.1f})" for name, weight in blend.weights.items())
    return f"Predictions are a blend of {parts}, which gains {gain}; history and schedule shown are {raced.winner}'s."


def ranking(raced: RaceRecord) -> list[str]:
    """All recipes, the best first; those that got farther before others."""
    order: list[str] = []
    for rung in reversed(range(len(FRACTIONS))):
        order += [name for name in raced.ranking(rung) if name not in order]
    return order


def _row(raced: RaceRecord, name: str) -> tuple[str, ...]:
    """A recipe's metrics and cost."""
    shown = []
    for rung in range(len(FRACTIONS)):
        row = raced.find(rung, name)
        value = None if row is None or row["value"] is None else merit(raced.metric, row["value"])
        shown.append("–" if row is None else "not finite" if value is None else metric_text(raced.metric, value))
    last = raced.last(name)
    ended = {"patience": "no longer improved", "epochs": "its last epoch", "non_finite": "diverged"}
    why = ended.get(last["stopped"], "the budget" if name in raced.finalists else "the rung")
    return (name, *shown, f"{last['epochs']:,}", f"{last.get('best_epoch', 0):,}", f"{last['seconds']:.1f}", why)
