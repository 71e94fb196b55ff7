"""What a column of a table means: numbers with gaps or decimal commas, dates, categories, or text; and its values."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpnn.data.tables.column import as_text, missing_text, text_bytes
from gpnn.data.tables.table import Table, parse_numbers
from gpnn.data.tables.vocabulary import CategoryColumn, Column, NumberColumn, TextColumn

if TYPE_CHECKING:
    import pyarrow

MOST_CATEGORIES = 1000
WIDTH = 2048  # features of a column of text
LEAST_WORDS = 3.0  # words of a value, on average, that make a column text
STEPS = 100  # between the quantiles that are kept
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DATE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?Z?$"
WORD = re.compile(r"\w+")
DAY = 86400.0  # seconds
COMMA = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)?(,\d+)?([eE][+-]?\d+)?$"  # 1.234,5 too, points between thousands
GROUPED = r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$"  # 1,234,567
PLAIN = r"^[+-]?\d+(\.\d+)?$"


def choose_column(nodes: Table, name: str, *, categorical: Sequence[str] = (), numbers: str = "standard") -> Column:
    """What a column of the nodes means.

    It holds numbers, or dates, where all values that are there do; text where most values differ and have several
    words; else categories.

    Args:
        nodes: the table.
        name: the column.
        categorical: columns that are categories even if their values are numbers.
        numbers: "standard" scales numbers to mean 0 and deviation 1, "normal" to normal deviates of their ranks; "raw"
            leaves them as they are.

    Raises:
        ValueError: for numbers and text side by side, or more than 1,000 categories.
    """
    from pyarrow import compute, types

    values = nodes.columns[name]
    if name in categorical:
        return choose_categories(nodes, name)
    if not types.is_large_string(values.type):
        empty = types.is_floating(values.type) and compute.all(compute.is_nan(values)).as_py()
        return choose_categories(nodes, name) if empty else _number_column(nodes, name, numbers)
    known = values.filter(compute.invert(missing_text(values)))
    alike = compute.match_substring_regex(known, NUMBER)
    if len(known) and compute.all(alike).as_py():
        return _number_column(nodes, name, numbers)
    if compute.any(alike).as_py():
        whole = compute.or_(compute.match_substring_regex(values, NUMBER), missing_text(values))
        hint = f", like the others ({nodes.option('categorical', name)} makes all of them categories)"
        nodes.refuse(name, whole.index(False).as_py(), f"must be a finite number{hint}")
    if len(known) and compute.all(compute.match_substring_regex(known, DATE)).as_py():
        return _number_column(nodes, name, numbers, date=True)
    return TextColumn(name, WIDTH) if _is_text(known) else choose_categories(nodes, name)


def choose_categories(nodes: Table, name: str) -> CategoryColumn:
    """The categories of a column.

    Raises:
        ValueError: when they are more than 1,000.
    """
    names = nodes.numbered(name)[1]
    if len(names) > MOST_CATEGORIES:
        raise ValueError(
            f"{nodes.file}, column {name[:80]}: must hold numbers or at most {MOST_CATEGORIES:,} categories "
            f"({nodes.option('ignore', name)} leaves it out). Got {len(names):,}."
        )
    return CategoryColumn(name, tuple(names))


def read_numbers(nodes: Table, name: str, *, date: bool = False) -> np.ndarray:
    """The numbers of a column, dates in days since 1970, NaN where they are missing, `[R]` float64.

    Raises:
        ValueError: for a value that is not a finite number or not a date, with its line.
    """
    from pyarrow import compute, types

    values = nodes.columns[name]
    if types.is_large_string(values.type):
        missing = missing_text(values).to_numpy(zero_copy_only=False)
        known = values.filter(compute.invert(missing_text(values)))
        found = parse_dates(known) if date else parse_numbers(known)[0]
        if found is None or len(found) != len(known):
            bad = _first_bad(known, date)
            nodes.refuse(
                name, int(np.flatnonzero(~missing)[bad]), "must be a date" if date else "must be a finite number"
            )
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = found
    else:
        numbers = parse_numbers(values)[0]
        missing = np.isnan(numbers)
        if date and not missing.all():
            nodes.refuse(name, int((~missing).argmax()), "must be a date")
    infinite = ~np.isfinite(numbers) & ~missing
    if infinite.any():
        nodes.refuse(name, int(infinite.argmax()), "must be a finite number")
    return numbers


def parse_dates(values: pyarrow.Array) -> np.ndarray | None:
    """Days since 1970 of text like 2024-05-31 or 2024-05-31T12:30, `[R]`; None where a value is not a date.

    >>> import pyarrow
    >>> parse_dates(pyarrow.array(["1970-01-02", "1970-01-01 12:00"], pyarrow.large_string())).tolist()
    [1.0, 0.5]
    """
    import pyarrow
    from pyarrow import compute

    if not compute.all(compute.match_substring_regex(values, DATE)).as_py():
        return None
    try:
        plain = compute.replace_substring_regex(values, r"(\.\d+)?Z?$", "")
        return compute.cast(plain, pyarrow.timestamp("s")).cast(pyarrow.int64()).to_numpy() / DAY
    except pyarrow.ArrowInvalid:  # such as the 31st of February
        return None


def hash_words(values: pyarrow.Array, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and feature of each distinct word of each value, features rising within a row, `[W]` each.

    A word's feature is the CRC-32 of its lower-case UTF-8, modulo `width`: the same on every machine.
    """
    rows, places = [], []
    for row, text in enumerate(as_text(values).to_pylist()):
        found = sorted({zlib.crc32(word.encode()) % width for word in WORD.findall(text.lower())})
        rows += [row] * len(found)
        places += found
    return np.array(rows, np.int64), np.array(places, np.int64)


def _number_column(nodes: Table, name: str, numbers: str, *, date: bool = False) -> NumberColumn:
    values = read_numbers(nodes, name, date=date)
    gaps = bool(np.isnan(values).any())
    known = values[~np.isnan(values)]
    if numbers == "raw" or not len(known):
        return NumberColumn(name, gaps=gaps, date=date)
    quantiles = tuple(np.quantile(known, np.linspace(0, 1, STEPS + 1)).tolist()) if numbers == "normal" else ()
    return NumberColumn(name, float(known.mean()), float(known.std()) or 1.0, quantiles, gaps, date)


def _is_text(known: pyarrow.Array) -> bool:
    """Whether values are sentences: several words, and most values differ."""
    from pyarrow import compute

    if not len(known):
        return False
    words = float(np.mean(compute.count_substring_regex(known, r"\w+").to_numpy()))
    return words >= LEAST_WORDS and len(known.unique()) > max(20, len(known) / 2)


def _first_bad(known: pyarrow.Array, date: bool) -> int:
    """The first value that is not a date, or not a number."""
    if not date:
        row = parse_numbers(known)[1]
        return 0 if row is None else row
    return next(row for row in range(len(known)) if parse_dates(known.slice(row, 1)) is None)


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
        categories, without = table.option("categorical", name), table.option("ignore", name)
        way_out = f"({categories} makes the column categories, {without} leaves it out)"
        table.refuse(name, row, f"must be a number without separators of thousands {way_out}")
    return False


def _all(values: pyarrow.Array, pattern: str) -> bool:
    from pyarrow import compute

    return bool(compute.all(compute.match_substring_regex(values, pattern), min_count=0).as_py())


def _with_comma(values: pyarrow.Array) -> pyarrow.Array:
    from pyarrow import compute

    return compute.match_substring(values, ",")


def _with_points(values: pyarrow.Array) -> pyarrow.Array:
    from pyarrow import compute

    return compute.replace_substring(compute.replace_substring(values, ".", ""), ",", ".")
