"""Edges in several files: parts of one table, or an edge type each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpnn.data.tables.column import alike
from gpnn.data.tables.table import Table

PART = re.compile(r"(part|chunk|shard|split|batch)?[-_. ]?\d+([-_. ].*)?", re.IGNORECASE)
PREFIX = re.compile(r"edges?[-_. ]+", re.IGNORECASE)


def file_types(paths: Sequence[Path], least: int = 2) -> list[str] | None:
    """The edge type that the name of each file is; None for fewer than `least`, and for numbered parts of one table.

    >>> file_types([Path("edges_follows.csv"), Path("edges_writes.csv.gz")])
    ['follows', 'writes']
    >>> file_types([Path("edges-0.csv"), Path("edges-1.csv")]) is None
    True
    """
    names = [PREFIX.sub("", path.name.partition(".")[0], count=1) for path in paths]
    if len(paths) < least or len(set(names)) < len(names) or any(PART.fullmatch(name) for name in names):
        return None
    return names


def join_edges(parts: Sequence[Table], types: Sequence[str] | None) -> Table:
    """The edges of several files as one table.

    Args:
        parts: the table of each file, by our names of its columns; without weights where others have them, they are 1.
        types: the edge type of each, for tables that have no column of it; or None.

    Raises:
        ValueError: when a file lacks a column that another has.
    """
    if types is not None and not any("type" in part.columns for part in parts):
        parts = [add_type(part, name) for part, name in zip(parts, types)]
        parts[0] = replace(parts[0], notes=(*types_note(types), *parts[0].notes))
    if any("weight" in part.columns for part in parts):
        parts = [part if "weight" in part.columns else _add_column(part, "weight", 1.0) for part in parts]
    every = dict.fromkeys(name for part in parts for name in part.columns)
    for part in parts:
        part.require(list(every))
    return join_tables(parts, "the edges")


def types_note(types: Sequence[str]) -> list[str]:
    """What to tell the user where files are edge types."""
    return [f"the {len(types)} files of edges are edge types: {', '.join(types[:12])}"] if types else []


def add_type(edges: Table, name: str) -> Table:
    """The edges of one type with a column of it."""
    return _add_column(edges, "type", name)


def join_tables(parts: Sequence[Table], file: str) -> Table:
    """Tables one after the other as one; a row's place is that of its part, with its file where there are several.

    Args:
        parts: tables with the columns of the first.
        file: what errors call the whole where it is of several files.
    """
    import pyarrow

    starts = np.cumsum([0, *(part.num_rows for part in parts)])
    several = len({part.file for part in parts}) > 1

    def place(row: int) -> str:
        number = int(np.searchsorted(starts, row, side="right")) - 1
        found = parts[number].place(row - int(starts[number]))
        return f"{parts[number].file}, {found}" if several else found

    columns = {name: pyarrow.concat_arrays(alike([part.columns[name] for part in parts])) for name in parts[0].columns}
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    commas = any(part.decimal_comma for part in parts)
    return Table(file if several else parts[0].file, columns, place, parts[0].given, notes, commas)


def _add_column(table: Table, name: str, value: str | float) -> Table:
    import pyarrow

    kind = pyarrow.large_string() if isinstance(value, str) else pyarrow.float64()
    return replace(table, columns={**table.columns, name: pyarrow.repeat(pyarrow.scalar(value, kind), table.num_rows)})
