"""Entry: one place of a table, over all its finished seeds, beside the printed number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from experiments.harness.measure import scale
from experiments.harness.results import Results, mean_and_deviation
from experiments.harness.spec import Cell, Experiment, Line

ROUNDING = 0.051  # of printed numbers, in percent


@dataclass(frozen=True)
class Entry:
    """A row in a column by one measure; the mean, its deviation and the paper's number in the unit they are shown in.

    Attributes:
        mean, deviation: over the finished seeds; None where there is none.
        seeds: finished seeds.
        validation: mean of the corresponding validation metric, a fraction.
        seconds: mean seconds of a run.
        paper: the printed number.
    """

    row: str
    column: str
    measure: str
    mean: float | None
    deviation: float | None
    seeds: int
    validation: float | None
    seconds: float | None
    paper: float | None

    @property
    def difference(self) -> float | None:
        """Ours less the printed number."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper

    @property
    def is_far(self) -> bool:
        """Whether ours and the printed number differ by more than two of our deviations and by more than rounding."""
        if self.difference is None or self.deviation is None:
            return False
        return abs(self.difference) > max(2 * self.deviation, ROUNDING)


def find_entries(experiment: Experiment, results: Results) -> list[Entry]:
    """Every place of the experiment's tables, measure by measure, row by row."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in experiment.cells():
        groups.setdefault((cell.row, cell.column), []).append(cell)
    rows = {row.name: row for row in experiment.rows}
    return [
        _entry(experiment, results, rows[row], column, cells, measure)
        for measure in experiment.measures
        for (row, column), cells in groups.items()
    ]


def _entry(experiment: Experiment, results: Results, row: Line, column: str, cells: list[Cell], measure: str) -> Entry:
    values = [scale(measure) * value for value in results.values(cells, measure)]
    mean, deviation = mean_and_deviation(values) if values else (None, None)
    validation = _mean(results.values(cells, measure.replace("test_", "val_"))) if "test_" in measure else None
    seconds = _mean(results.values(cells, "seconds"))
    paper = printed(experiment, row, column, measure)
    return Entry(row.name, column, measure, mean, deviation, len(values), validation, seconds, paper)


def printed(experiment: Experiment, row: Line, column: str, measure: str) -> float | None:
    """The paper's number for a place, where it has one."""
    found = row.paper.get(measure)
    if isinstance(found, Mapping):
        return found.get(column)
    if found is None and measure == experiment.measure:
        found = row.paper.get(column)
    return found


def plain_numbers(entry: Entry) -> dict[str, Any]:
    """An entry by the names of its attributes, for CSV and JSON: shares as fractions, as `metrics.json` has them."""
    unit = scale(entry.measure)
    shown = {name: getattr(entry, name) for name in ("mean", "deviation", "paper")}
    return asdict(entry) | {name: None if value is None else value / unit for name, value in shown.items()}


def by_place(entries: list[Entry]) -> dict[tuple[str, str, str], Entry]:
    """Entries by row, column and measure."""
    return {(entry.row, entry.column, entry.measure): entry for entry in entries}


def finished(entries: list[Entry], measure: str) -> Iterator[tuple[Entry, float]]:
    """Those entries of a measure that have a mean, with it."""
    for entry in entries:
        if entry.measure == measure and entry.mean is not None:
            yield entry, entry.mean


def drawn_columns(experiment: Experiment, entries: list[Entry]) -> list[str]:
    """The columns that have a finished entry of the first measure; the first one where none has."""
    found = {entry.column for entry, _ in finished(entries, experiment.measure)}
    names = [column.name for column in experiment.columns]
    return [name for name in names if name in found] or names[:1]


def _mean(values: list[float]) -> float | None:
    return mean_and_deviation(values)[0] if values else None
