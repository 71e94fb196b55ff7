"""The columns of a table by our names for them, whatever the user's are."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from gpnn.data.tables.table import Table

NEO4J = {"id": "ID", "source": "START_ID", "target": "END_ID", "type": "TYPE", "label": "LABEL"}  # `name:ID(Space)`


def name_columns(table: Table, names: Mapping[str, str]) -> Table:
    """The table with our names for the columns that the user calls by others.

    A column is found by its exact name, else by the name in any case, else by Neo4j's mark for it (`:START_ID`).

    Args:
        table: as it was read.
        names: our name -> the user's; where they are equal the table need not have the column.

    Raises:
        ValueError: when a column that the user named is missing, or another one has our name.
    """
    if table.given:  # named already
        return table
    found = {ours: find_column(table.columns, theirs) for ours, theirs in names.items()}
    table.require([theirs for ours, theirs in names.items() if ours != theirs and found[ours] is None])
    others = {ours: name for ours, name in found.items() if name is not None and name != ours}
    for ours, theirs in others.items():
        if ours in table.columns and ours not in others.values():
            raise ValueError(f"{table.file} must not have a column {ours} where it is called {theirs}. Got both.")
    return apply_names(table, others)


def apply_names(table: Table, given: Mapping[str, str]) -> Table:
    """The table with our names for the columns of `given`, our name -> the user's, that it has."""
    ours_of = {theirs: ours for ours, theirs in given.items()}
    columns = {ours_of.get(name, name): values for name, values in table.columns.items()}
    return replace(table, columns=columns, given=given)


def find_column(columns: Collection[str], name: str) -> str | None:
    """The one column that is called so: exactly, else in any case, else by Neo4j's mark; None where there is none."""
    if name in columns:
        return name
    mark = re.compile(rf".*:{NEO4J[name]}(\(.*\))?") if name in NEO4J else None
    for fits in (lambda each: each.lower() == name.lower(), lambda each: mark and mark.fullmatch(each)):
        alike = [each for each in columns if fits(each)]
        if alike:
            return alike[0] if len(alike) == 1 else None
    return None
