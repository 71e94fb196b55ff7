"""Experiments from TOML files.

A file has a `title`, the number of `seeds`, shared `settings`, and `rows` and `columns` with settings of their own. A
`grid` makes a row of every combination of its values instead, or of `samples` of them, drawn without replacement.
`pairs` of rows are compared seed by seed.
"""

from __future__ import annotations

import itertools
import random
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from gpnn.experiment.settings import Settings, lay_over
from gpnn.experiment.spec import Experiment, Line

KEYS = {"title", "settings", "seeds", "measure", "also", "source", "picture", "notes", "pairs"}
_FIRST = ("table", "figure")  # the paper's own come first in a list
_LAST = ("search",)


def read_experiment(path: Path) -> Experiment:
    """The experiment of a TOML file.

    Raises:
        ValueError: naming the file and the key that is wrong.
    """
    content = _read(path)
    grid = list(_grid_rows(content.pop("grid", {})))
    number = content.pop("samples", len(grid))
    if not 0 <= number <= len(grid):
        raise ValueError(f"`samples` of {path.name} must be at most the grid's {len(grid)} rows. Got {number}.")
    rows = [*(_line(path, row) for row in content.pop("rows", [])), *random.Random(0).sample(grid, number)]
    columns = [_line(path, column) for column in content.pop("columns", [])]
    if unknown := sorted(set(content) - KEYS):
        names = ", ".join(sorted(KEYS))
        raise ValueError(f"{path.name} must hold {names}, rows, columns, grid or samples. Got {unknown[0]!r}.")
    if not rows or not columns:
        raise ValueError(f"{path.name} must have rows and columns. Got {len(rows)} and {len(columns)}.")
    for name in ("notes", "also"):
        content[name] = tuple(content.get(name, ()))
    content["pairs"] = tuple(_pair(path, pair, {row.name for row in rows}) for pair in content.get("pairs", ()))
    experiment = Experiment(path.stem, rows=tuple(rows), columns=tuple(columns), **content)
    _check_names(path, experiment)
    return experiment


def find_experiments(folder: Path) -> list[Experiment]:
    """Every experiment of a folder: the paper's tables, its figures, others, and searches last."""
    return [read_experiment(path) for path in sorted(folder.glob("*.toml"), key=lambda path: _order(path.stem))]


def _order(name: str) -> tuple[int, list[Any]]:
    groups = [at for at, prefix in enumerate(_FIRST) if name.startswith(prefix)]
    rank = groups[0] if groups else len(_FIRST) + any(name.startswith(prefix) for prefix in _LAST)
    return rank, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"The experiment must exist. {path} does not.") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} must be TOML. {error}.") from None


def _line(path: Path, content: Mapping[str, Any]) -> Line:
    known = [each.name for each in fields(Line)]
    unknown = sorted(set(content) - set(known))
    if unknown or "name" not in content:
        wrong = f"{unknown[0]!r}" if unknown else "no name"
        raise ValueError(f"A row or column of {path.name} has {', '.join(known)}. Got {wrong}.")
    return Line(**{**content, "only": tuple(content.get("only", ()))})


def _pair(path: Path, names: list[str], rows: set[str]) -> tuple[str, str]:
    if len(names) != 2 or not rows.issuperset(names):
        raise ValueError(f"Each of the `pairs` of {path.name} must be the names of two rows. Got {names}.")
    return names[0], names[1]


def _check_names(path: Path, experiment: Experiment) -> None:
    """Refuse a picture or a kind that there is none of, and a column that a row names wrongly."""
    from gpnn.experiment.kinds import KINDS
    from gpnn.experiment.pictures import PICTURES

    if experiment.picture not in PICTURES:
        choices = ", ".join(PICTURES)
        raise ValueError(f"`picture` of {path.name} must be one of {choices}. Got {experiment.picture!r}.")
    lines = (*experiment.rows, *experiment.columns)
    settings = [
        experiment.settings,
        *(line.settings for line in lines),
        *(at for row in lines for at in row.at.values()),
    ]
    for kind in (each["kind"] for each in settings if "kind" in each):
        if kind not in KINDS:
            raise ValueError(f"A `kind` of {path.name} must be one of {', '.join(KINDS)}. Got {kind!r}.")
    columns = {column.name for column in experiment.columns}
    for row in experiment.rows:
        for name in [*row.at, *row.only]:
            if name not in columns:
                raise ValueError(f"The row {row.name!r} of {path.name} must name columns. Got {name!r}.")


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
