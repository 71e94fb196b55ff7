"""Results: what each finished cell came to, kept in one file that is never half-written."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpnn.experiment.spec import Cell
from gpnn.storage.atomic import write_text


@dataclass(frozen=True)
class Outcome:
    """One finished cell."""

    key: str
    row: str
    column: str
    seed: int
    metrics: dict[str, Any]


@dataclass
class Results:
    """The finished cells of an experiment and the file that keeps them.

    Attributes:
        file: a line of JSON a cell.
        outcomes: by the cell's key.
    """

    file: Path
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @classmethod
    def open(cls, file: Path) -> Results:
        """The results that `file` holds; none where it does not exist."""
        outcomes: dict[str, Outcome] = {}
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                outcome = Outcome(**json.loads(line))
                outcomes[outcome.key] = outcome
        return cls(file, outcomes)

    def adopt(self, cells: Iterable[Cell], measure: str) -> None:
        """Take over those of `cells` that another experiment of the same folder has finished, `measure` included."""
        wanted = {cell.key: cell for cell in cells if cell.key not in self.outcomes}
        for file in sorted(self.file.parent.glob("*.jsonl")):
            for key, outcome in Results.open(file).outcomes.items():
                if key in wanted and outcome.metrics.get(measure) is not None:
                    self.add(wanted.pop(key), outcome.metrics)

    def add(self, cell: Cell, metrics: dict[str, Any]) -> None:
        """Keep what a cell came to, on disk before this returns; what another process added meanwhile stays."""
        self.outcomes = Results.open(self.file).outcomes | self.outcomes
        self.outcomes[cell.key] = Outcome(cell.key, cell.row, cell.column, cell.seed, metrics)
        lines = (json.dumps(asdict(outcome), sort_keys=True) for outcome in self.outcomes.values())
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.file, "".join(f"{line}\n" for line in lines))

    def values(self, cells: list[Cell], metric: str) -> list[float]:
        """The metric of those of `cells` that are finished and have it, in their order."""
        found = (self.outcomes.get(cell.key) for cell in cells)
        return [each.metrics[metric] for each in found if each and each.metrics.get(metric) is not None]


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    """The mean and the sample standard deviation (0 for a single value)."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
