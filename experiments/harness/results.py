"""Results: what each finished cell came to, kept in one file that is never half-written."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from experiments.harness.spec import Cell, Experiment
from gpnn.storage.atomic import wait_for_folder, write_text
from gpnn.storage.read import parse_json, read_text, shorten


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
        """The results that `file` holds; none where it does not exist.

        Raises:
            ValueError: naming the line that is no finished cell.
        """
        lines = read_text(file).removesuffix("\n").split("\n") if file.exists() else []
        found = [_outcome(line, f"{file.name}, line {number}") for number, line in enumerate(lines, 1) if line]
        return cls(file, {outcome.key: outcome for outcome in found})

    def adopt(self, experiment: Experiment) -> None:
        """Take over the cells that another experiment of the same folder has finished, with this one's measure."""
        wanted = {cell.key: cell for cell in experiment.cells() if cell.key not in self.outcomes}
        for file in sorted(self.file.parent.glob("*.jsonl")):
            for key, outcome in Results.open(file).outcomes.items():
                if key in wanted and outcome.metrics.get(experiment.measure) is not None:
                    self.add(wanted.pop(key), experiment.keep(outcome.metrics))

    def add(self, cell: Cell, metrics: dict[str, Any]) -> None:
        """Keep what a cell came to, on disk before this returns; what another process added meanwhile stays."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with wait_for_folder(self.file.parent):
            self.outcomes = Results.open(self.file).outcomes | self.outcomes
            self.outcomes[cell.key] = Outcome(cell.key, cell.row, cell.column, cell.seed, metrics)
            lines = (json.dumps(asdict(outcome), sort_keys=True) for outcome in self.outcomes.values())
            write_text(self.file, "".join(f"{line}\n" for line in lines))

    def values(self, cells: list[Cell], metric: str) -> list[float]:
        """The metric of those of `cells` that are finished and have it, in their order.

        One before a calibration (`test_accuracy_before`) is that after it where there was none.
        """
        found = [each.metrics for cell in cells if (each := self.outcomes.get(cell.key))]
        values = (each.get(metric, each.get(metric.removesuffix("_before"))) for each in found)
        return [value for value in values if value is not None]


def _outcome(line: str, name: str) -> Outcome:
    content = parse_json(line, name)
    hints = get_type_hints(Outcome)
    wrong = set(content) ^ set(hints)
    wrong |= {
        key for key in set(content) & set(hints) if not isinstance(content[key], get_origin(hints[key]) or hints[key])
    }
    if wrong:
        raise ValueError(f"{name}: a cell has {', '.join(hints)}. Got another {shorten(min(wrong))}.")
    return Outcome(**content)


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    """The mean and the sample standard deviation (0 for a single value)."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
