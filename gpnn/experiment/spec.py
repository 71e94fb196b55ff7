"""Experiment: what is to be run, read from a TOML file.

A file has a `title`, the number of `seeds`, shared `settings`, and `rows` and `columns` with settings of their own; a
cell is a row, a column and a seed, and its settings are those of the file, the column and the row laid over each other,
then the row's own for that column (`rows.at.COLUMN`); a row with `only` keeps to the columns it names. A `grid` makes a
row of every combination of its values instead, or of `samples` of them, drawn without replacement. `pairs` of rows are
compared seed by seed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

Settings = dict[str, Any]

QUICK: Settings = {
    "device": "cpu",
    "data": {"name": "planted", "num_nodes": 200, "num_classes": 4, "num_features": 40, "label_rate": 0.1},
    "partition": {"k": 4},
    "model": {"hidden_channels": 8},
    "train": {"epochs": 3},
}


@dataclass(frozen=True)
class Line:
    """A row or a column: its name, settings and, for a row, the paper's numbers and settings by column."""

    name: str
    settings: Settings = field(default_factory=dict)
    paper: Mapping[str, float] = field(default_factory=dict)
    at: Mapping[str, Settings] = field(default_factory=dict)
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """One run: the settings of a configuration, and what it is called in the table."""

    row: str
    column: str
    seed: int
    settings: Settings

    @property
    def key(self) -> str:
        """A name that changes whenever anything that decides the result does."""
        return hashlib.sha256(json.dumps([self.settings, self.seed], sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Attributes:
        name: the file's name without ending.
        title: one line.
        rows: the methods or configurations.
        columns: the datasets or conditions.
        settings: configuration shared by every cell.
        quick: configuration of the quick form; :data:`QUICK` where the file has none.
        over: configuration laid over everything; its [data] stands alone, because another dataset takes other options.
        seeds: number of seeds, from 0.
        measure: the metric that the table shows; "val_…" measures leave the test nodes unread.
        notes: what a reader of the table has to know.
        pairs: rows whose difference, seed by seed, the report tests.
    """

    name: str
    title: str
    rows: tuple[Line, ...]
    columns: tuple[Line, ...]
    settings: Settings = field(default_factory=dict)
    quick: Settings = field(default_factory=lambda: QUICK)
    over: Settings | None = None
    seeds: int = 10
    measure: str = "test_accuracy"
    notes: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()

    def cells(self) -> Iterator[Cell]:
        """Every cell, seed by seed."""
        for seed in range(self.seeds):
            for row, column in itertools.product(self.rows, self.columns):
                if row.only and column.name not in row.only:
                    continue
                settings = lay_over(self.settings, column.settings, row.settings, row.at.get(column.name, {}))
                if self.over is not None:
                    settings = lay_over({**settings, "data": {}}, self.over)
                yield Cell(row.name, column.name, seed, settings)

    def quick_form(self) -> Experiment:
        """The same rows and columns with one seed, on a small graph and for a few epochs: a check of the pipeline."""
        return replace(self, seeds=1, over=self.quick)


def read_experiment(path: Path) -> Experiment:
    """The experiment of a TOML file.

    Raises:
        ValueError: naming the file and the key that is wrong.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"The experiment must exist. {path} does not.") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} must be TOML. {error}.") from None
    grid = list(_grid_rows(content.pop("grid", {})))
    number = content.pop("samples", len(grid))
    if not 0 <= number <= len(grid):
        raise ValueError(f"`samples` of {path.name} must be at most the grid's {len(grid)} rows. Got {number}.")
    rows = [*(_line(path, row) for row in content.pop("rows", [])), *random.Random(0).sample(grid, number)]
    columns = [_line(path, column) for column in content.pop("columns", [])]
    known = {"title", "settings", "quick", "seeds", "measure", "notes", "pairs"}
    unknown = sorted(set(content) - known)
    if unknown:
        raise ValueError(
            f"{path.name} must hold {', '.join(sorted(known))}, rows, columns, grid or samples. Got {unknown[0]!r}."
        )
    if not rows or not columns:
        raise ValueError(f"{path.name} must have rows and columns. Got {len(rows)} and {len(columns)}.")
    content["notes"] = tuple(content.get("notes", ()))
    content["pairs"] = tuple(_pair(path, pair, {row.name for row in rows}) for pair in content.get("pairs", ()))
    return Experiment(path.stem, rows=tuple(rows), columns=tuple(columns), **content)


def find_experiments(folder: Path) -> list[Experiment]:
    """Every experiment of a folder, by name."""
    return [read_experiment(path) for path in sorted(folder.glob("*.toml"))]


def lay_over(*layers: Mapping[str, Any]) -> Settings:
    """Nested settings, later layers over earlier ones.

    >>> lay_over({"train": {"epochs": 1, "clip": 5}}, {"train": {"epochs": 2}})
    {'train': {'epochs': 2, 'clip': 5}}
    """
    merged: Settings = {}
    for layer in layers:
        for key, value in layer.items():
            below = merged.get(key)
            both = isinstance(value, Mapping) and isinstance(below, Mapping)
            merged[key] = lay_over(below, value) if both else value  # type: ignore[arg-type]
    return merged


def _line(path: Path, content: Mapping[str, Any]) -> Line:
    unknown = sorted(set(content) - {"name", "settings", "paper", "at", "only"})
    if unknown or "name" not in content:
        wrong = f"{unknown[0]!r}" if unknown else "no name"
        raise ValueError(f"A row or column of {path.name} has name, settings, paper, at and only. Got {wrong}.")
    return Line(**{**content, "only": tuple(content.get("only", ()))})


def _pair(path: Path, names: list[str], rows: set[str]) -> tuple[str, str]:
    if len(names) != 2 or not rows.issuperset(names):
        raise ValueError(f"Each of the `pairs` of {path.name} must be the names of two rows. Got {names}.")
    return names[0], names[1]


def _grid_rows(grid: Mapping[str, list[Any]]) -> Iterator[Line]:
    """A row for every combination of the grid's values; keys are dotted settings."""
    if not grid:
        return
    for values in itertools.product(*grid.values()):
        settings: Settings = {}
        for key, value in zip(grid, values):
            nested: Any = value
            for name in reversed(key.split(".")):
                nested = {name: nested}
            settings = lay_over(settings, nested)
        yield Line(", ".join(f"{key.split('.')[-1]}={value}" for key, value in zip(grid, values)), settings)
