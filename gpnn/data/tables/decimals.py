"""Numbers with a decimal comma, as spreadsheets of many countries write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gpnn.data.tables.column import missing_text, text_bytes
from gpnn.data.tables.table import Table

if TYPE_CHECKING:
    import pyarrow

COMMA = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)?(,\d+)?([eE][+-]?\d+)?$"  # 1.234,5 too, points between thousands
GROUPED = r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$"  # 1,234,567
PLAIN = r"^[+-]?\d+(\.\d+)?$"


def read_commas(table: Table, names: Iterable[str]) -> Table:
    """The table with points instead of the decimal commas of those columns that hold nothing but numbers.

    Raises:
        ValueError: for 1,234 where it may be a thousand.
    """
    columns, notes = dict(table.columns), list(table.notes)
    for name in names:
        values = table.columns[name]
        known = _known(values)
        if known is None:
            continue
        if not _has_decimal_commas(table, name, known):
            continue
        columns[name] = _with_points(values)
        first = known.filter(_with_comma(known))[0].as_py()
        read = _with_points(known.filter(_with_comma(known)).slice(0, 1))[0].as_py()
        notes.append(f"{table.file}, column {name[:80]}: commas are decimal ones, {first} is read as {read}")
    return replace(table, columns=columns, notes=tuple(notes))


def _known(values: pyarrow.Array) -> pyarrow.Array | None:
    """The values that are there, where they are text with a comma; else None."""
    from pyarrow import compute, types

    if not types.is_large_string(values.type) or not (text_bytes(values)[1] == ord(",")).any():
        return None
    return values.filter(compute.invert(missing_text(values)))


def _has_decimal_commas(table: Table, name: str, known: pyarrow.Array) -> bool:
    from pyarrow import compute

    with_comma = known.filter(_with_comma(known))
    grouped = compute.all(compute.match_substring_regex(with_comma, GROUPED)).as_py()
    if len(with_comma) and _all(known, COMMA) and (table.decimal_comma or not grouped):
        return True
    if len(with_comma) and grouped and _all(known.filter(compute.invert(_with_comma(known))), PLAIN):
        row = compute.match_substring(table.columns[name], ",").index(True).as_py()
        way_out = f"(data.categorical={name} makes the column categories, data.ignore={name} leaves it out)"
        table.refuse(name, row, f"must be a number without separators of thousands {way_out}")
    return False


def _all(values: pyarrow.Array, pattern: str) -> bool:
    from pyarrow import compute

    return bool(compute.all(compute.match_substring_regex(values, pattern)).as_py())


def _with_comma(values: pyarrow.Array) -> pyarrow.Array:
    from pyarrow import compute

    return compute.match_substring(values, ",")


def _with_points(values: pyarrow.Array) -> pyarrow.Array:
    from pyarrow import compute

    return compute.replace_substring(compute.replace_substring(values, ".", ""), ",", ".")
