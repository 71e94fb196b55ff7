"""Experiment: what is to be run, as rows, columns and seeds.

A cell is a row, a column and a seed. Its settings are those of the experiment, the column and the row laid over each
other, then the row's own for that column (`at`); a row with `only` keeps to the columns it names. The setting `kind`
says what a cell does (:data:`experiments.harness.kinds.KINDS`); without one it is a training.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.harness.settings import Settings, fill_in, lay_over


@dataclass(frozen=True)
class Line:
    """A row or a column.

    Attributes:
        name: what the table calls it.
        settings: its own.
        paper: for a row, the printed numbers by column; those of a measure other than the first one by its name, a
            number where the experiment has one column, else again by column.
        at: for a row, settings by column.
        only: for a row, the columns it keeps to; none: all.
        seeds: the most seeds, or for a row the most by column; None: the experiment's.
        why: for a row, why its numbers are far from print, where they are.
    """

    name: str
    settings: Settings = field(default_factory=dict)
    paper: Mapping[str, Any] = field(default_factory=dict)
    at: Mapping[str, Settings] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    seeds: int | Mapping[str, int] | None = None
    why: str = ""

    def most_seeds(self, column: str, otherwise: int) -> int:
        """How many seeds this line allows in a column."""
        found = self.seeds.get(column) if isinstance(self.seeds, Mapping) else self.seeds
        return otherwise if found is None else found


@dataclass(frozen=True)
class Cell:
    """One run: its settings, what it is called in the table, and the folder of its experiment."""

    row: str
    column: str
    seed: int
    settings: Settings
    folder: Path = Path()

    @property
    def key(self) -> str:
        """A name that changes whenever anything that decides the result does."""
        return hashlib.sha256(json.dumps([self.settings, self.seed], sort_keys=True).encode()).hexdigest()[:16]

    @property
    def kind(self) -> str:
        """What the cell does."""
        return self.settings.get("kind", "training")

    @property
    def filled_settings(self) -> Settings:
        """The settings with the cell's own seed and folder in them."""
        return fill_in(self.settings, self.seed, self.folder)


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Attributes:
        name: the file's name without ending.
        title: one line.
        rows: the methods or configurations.
        columns: the datasets or conditions.
        settings: shared by every cell.
        seeds: number of seeds, from 0.
        measure: the metric that the table shows; "val_…" measures leave the test nodes unread.
        also: further metrics to show, in tables of their own or, with a single column, as further columns.
        source: whose numbers stand beside ours.
        picture: how the results are drawn, a name of :data:`experiments.harness.pictures.PICTURES`.
        notes: what a reader of the table has to know.
        pairs: rows whose difference, seed by seed, the report tests.
        is_quick: whether cells are those of the quick form.
        folder: where the experiment's file lies.
    """

    name: str
    title: str
    rows: tuple[Line, ...]
    columns: tuple[Line, ...]
    settings: Settings = field(default_factory=dict)
    seeds: int = 10
    measure: str = "test_accuracy"
    also: tuple[str, ...] = ()
    source: str = "the paper"
    picture: str = "bars"
    notes: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    is_quick: bool = False
    folder: Path = Path()

    @property
    def measures(self) -> tuple[str, ...]:
        """The metric of the table, and the further ones."""
        return (self.measure, *self.also)

    def keep(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Those of a cell's metrics that the experiment holds, with eight digits.

        None of the test nodes where it chooses on others, none of the training nodes where it does not show them.
        """
        left_out = ("train_", "test_") if self.measure.startswith("val_") else ("train_",)
        return {
            name: float(f"{value:.8g}") if isinstance(value, float) else value
            for name, value in metrics.items()
            if name in self.measures or not name.startswith(left_out)
        }

    def cells(self) -> Iterator[Cell]:
        """Every cell, seed by seed."""
        for seed in range(self.seeds):
            for row, column in itertools.product(self.rows, self.columns):
                least = min(line.most_seeds(column.name, self.seeds) for line in (row, column))
                if (row.only and column.name not in row.only) or seed >= least:
                    continue
                settings = lay_over(self.settings, column.settings, row.settings, row.at.get(column.name, {}))
                cell = Cell(row.name, column.name, seed, settings, self.folder)
                yield _shrink(cell) if self.is_quick else cell

    def select(
        self, *, rows: Collection[str] = (), columns: Collection[str] = (), seeds: int | None = None
    ) -> list[Cell]:
        """The cells of some rows and columns (none named: of all), with the first `seeds` seeds.

        Raises:
            ValueError: for a name that is not a row or a column.
        """
        for what, lines, names in (("row", self.rows, rows), ("column", self.columns, columns)):
            known = [line.name for line in lines]
            for name in names:
                if name not in known:
                    raise ValueError(f"A {what} of {self.name} must be one of: {'; '.join(known)}. Got {name!r}.")
        return [
            cell
            for cell in self.cells()
            if (not rows or cell.row in rows)
            and (not columns or cell.column in columns)
            and (seeds is None or cell.seed < seeds)
        ]

    def quick_form(self) -> Experiment:
        """The same rows and columns with one seed, each cell shrunk as its kind says: a check of the pipeline."""
        return replace(self, seeds=1, is_quick=True)


def _shrink(cell: Cell) -> Cell:
    from experiments.harness.kinds import KINDS

    return replace(cell, settings=KINDS[cell.kind].shrink(cell.settings))
