"""Experiments from TOML files.

A file has a `title`, the number of `seeds`, shared `settings`, and `rows` and `columns` with settings of their own. A
`grid` makes a row of every combination of its values instead, or of `samples` of them, drawn without replacement.
`pairs` of rows are compared seed by seed. Where `finalists` names rows, these have all seeds and the others the
`first_seeds` of them: successive halving.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from experiments.harness.settings import Settings, lay_over
from experiments.harness.spec import Experiment, Line
from gpnn.check import convert, describe
from gpnn.storage.read import read_toml, shorten

KEYS = {"title", "settings", "seeds", "measure", "also", "source", "picture", "notes", "pairs"}
_FIRST = ("table", "figure")  # the paper's own come first in a list
_LAST = ("search",)
_LINE, _EXPERIMENT = get_type_hints(Line), get_type_hints(Experiment)
MOST_ROWS = 1_000_000


def read_experiment(path: Path) -> Experiment:
    """The experiment of a TOML file.

    Raises:
        ValueError: naming the file and the key that is wrong.
    """
    content = _read(path)
    grid = content.pop("grid", {})
    points = _grid_points(path, grid)
    number = typed(path, "samples", content.pop("samples", len(points)), int)
    if not 0 <= number <= len(points):
        raise ValueError(
            f"`samples` of {path.name} must be at most the grid's {len(points)} rows. Got {shorten(number)}."
        )
    sampled = [_grid_row(grid, values) for values in random.Random(0).sample(points, number)]
    rows = [*_lines(path, "rows", content.pop("rows", [])), *sampled]
    rows = _halve(path, rows, content.pop("finalists", []), content.pop("first_seeds", 1))
    columns = _lines(path, "columns", content.pop("columns", []))
    if unknown := sorted(set(content) - KEYS):
        names = ", ".join([*sorted(KEYS), "rows", "columns", "grid", "samples", "finalists"])
        raise ValueError(f"{path.name} must hold {names} or first_seeds. Got {shorten(unknown[0])}.")
    if not rows or not columns:
        raise ValueError(f"{path.name} must have rows and columns. Got {len(rows)} and {len(columns)}.")
    content = {"title": path.stem} | content
    content = {name: typed(path, name, value, _EXPERIMENT[name]) for name, value in content.items()}
    for pair in content.get("pairs", ()):
        _check_pair(path, pair, {row.name for row in rows})
    experiment = Experiment(path.stem, rows=tuple(rows), columns=tuple(columns), folder=path.parent, **content)
    _check_names(path, experiment)
    return experiment


def find_experiments(folder: Path) -> tuple[Experiment, ...]:
    """Every experiment of a folder and of its folders: the paper's tables, its figures, others, and searches last."""
    return tuple(read_experiment(path) for path in sorted(_files(folder), key=lambda path: _order(path.stem)))


def find_file(folder: Path, name: str) -> Path:
    """The TOML file of an experiment, in a folder or in one of its folders.

    Raises:
        ValueError: when several have the name.
    """
    found = [path for path in _files(folder) if path.stem == name]
    if len(found) > 1:
        raise ValueError(f"An experiment must have a name of its own. Got {name!r} in {len(found)} folders.")
    return found[0] if found else folder / f"{name}.toml"


def _files(folder: Path) -> list[Path]:
    return [*folder.glob("*.toml"), *folder.glob("*/*.toml")]


def _order(name: str) -> tuple[int, list[Any]]:
    groups = [at for at, prefix in enumerate(_FIRST) if name.startswith(prefix)]
    rank = groups[0] if groups else len(_FIRST) + any(name.startswith(prefix) for prefix in _LAST)
    return rank, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def typed(path: Path, name: str, value: Any, hint: Any) -> Any:
    """The value as the type requires, of plain numbers, text, lists and tables.

    Raises:
        ValueError: naming the file and the key.
    """
    try:
        json.dumps(value)  # a cell's key is made of it; dates are not JSON
        return convert(value, hint)
    except TypeError:
        raise ValueError(f"`{name}` of {path.name} must be {describe(hint)}. Got {shorten(value)}.") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except FileNotFoundError:
        raise ValueError(f"The experiment must exist. {path} does not.") from None


def _lines(path: Path, name: str, content: Any) -> list[Line]:
    return [_line(path, each) for each in typed(path, name, content, list[dict[str, Any]])]


def _line(path: Path, content: Mapping[str, Any]) -> Line:
    known = [each.name for each in fields(Line)]
    unknown = sorted(set(content) - set(known))
    if unknown or "name" not in content:
        wrong = shorten(unknown[0]) if unknown else "no name"
        raise ValueError(f"A row or column of {path.name} has {', '.join(known)}. Got {wrong}.")
    for column, settings in typed(path, "at", content.get("at", {}), dict[str, Any]).items():
        typed(path, f"at.{column}", settings, dict[str, Any])
    return Line(**{name: typed(path, name, value, _LINE[name]) for name, value in content.items()})


def _halve(path: Path, rows: list[Line], finalists: Any, first_seeds: Any) -> list[Line]:
    """The rows, those outside the finalists with the first seeds alone; without finalists the rows as they are."""
    names, most = set(typed(path, "finalists", finalists, list[str])), typed(path, "first_seeds", first_seeds, int)
    if unknown := sorted(names - {row.name for row in rows}):
        raise ValueError(f"The `finalists` of {path.name} must be rows. Got {shorten(unknown[0])}.")
    return [replace(row, seeds=most) if names and row.name not in names else row for row in rows]


def _check_pair(path: Path, names: tuple[str, ...], rows: set[str]) -> None:
    if len(names) != 2 or not rows.issuperset(names):
        raise ValueError(
            f"Each of the `pairs` of {path.name} must be the names of two rows. Got {shorten(list(names))}."
        )


def _check_names(path: Path, experiment: Experiment) -> None:
    """Refuse a picture or a kind that there is none of, and a column that a row names wrongly."""
    from experiments.harness.kinds import KINDS
    from experiments.harness.pictures import PICTURES

    if experiment.picture not in PICTURES:
        choices = ", ".join(PICTURES)
        raise ValueError(f"`picture` of {path.name} must be one of {choices}. Got {shorten(experiment.picture)}.")
    lines = (*experiment.rows, *experiment.columns)
    settings = [
        experiment.settings,
        *(line.settings for line in lines),
        *(at for row in lines for at in row.at.values()),
    ]
    for kind in (each["kind"] for each in settings if "kind" in each):
        if not isinstance(kind, str) or kind not in KINDS:
            raise ValueError(f"A `kind` of {path.name} must be one of {', '.join(KINDS)}. Got {shorten(kind)}.")
    columns = {column.name for column in experiment.columns}
    for row in experiment.rows:
        for name in [*row.at, *row.only]:
            if name not in columns:
                raise ValueError(f"The row {shorten(row.name)} of {path.name} must name columns. Got {shorten(name)}.")


def _grid_points(path: Path, grid: Any) -> list[tuple[Any, ...]]:
    """Every combination of the grid's values; none of an empty grid."""
    for key, values in typed(path, "grid", grid, dict[str, Any]).items():
        typed(path, f"grid.{key}", values, list[Any])
    number = math.prod(map(len, grid.values()))
    if number > MOST_ROWS:
        raise ValueError(f"The grid of {path.name} must have at most {MOST_ROWS} combinations. Got {number}.")
    return list(itertools.product(*grid.values())) if grid else []


def _grid_row(grid: Mapping[str, Any], values: Sequence[Any]) -> Line:
    """The row of one combination; the grid's keys are dotted settings."""
    settings: Settings = {}
    for key, value in zip(grid, values):
        nested: Any = value
        for name in reversed(key.split(".")):
            nested = {name: nested}
        settings = lay_over(settings, nested)
    return Line(", ".join(f"{key.split('.')[-1]}={value}" for key, value in zip(grid, values)), settings)
