"""One table of a user's folder, as columns of text that know which line they came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a table, as text without surrounding blanks.

    Attributes:
        file: the file's name, for errors.
        columns: name -> values, arrow arrays of strings, `[R]`.
        lines: the line of the file that each row stands on, `[R]`.
    """

    file: str
    columns: dict[str, pyarrow.Array]
    lines: np.ndarray

    def numbers(self, column: str) -> np.ndarray:
        """The values of a column as finite numbers, `[R]` float64."""
        import pyarrow
        from pyarrow import compute

        try:
            numbers = np.array(compute.cast(self.columns[column], pyarrow.float64()))  # a copy that may be written
        except pyarrow.ArrowInvalid:
            numbers = np.array([_number(value) for value in self.columns[column].to_pylist()])
        bad = ~np.isfinite(numbers)
        if bad.any():
            self.refuse(column, int(bad.argmax()), "must be a finite number")
        return numbers

    def distinct(self, column: str) -> pyarrow.Array:
        """The values of a column, none empty and none repeated, `[R]`."""
        values = self.columns[column]
        if len(values.unique()) == len(values) and (not len(values) or values.index("").as_py() < 0):
            return values
        seen: dict[str, int] = {}
        for row, value in enumerate(values.to_pylist()):
            if not value:
                self.refuse(column, row, "must not be empty")
            if seen.setdefault(value, row) != row:
                self.refuse(column, row, f"must be distinct and stands on line {self.lines[seen[value]]} already")
        raise AssertionError("a repeated or empty value was announced")

    def positions(self, column: str, names: pyarrow.Array, where: str) -> np.ndarray:
        """Of each value its place among the distinct `names`, which stand in the file `where`, `[R]` int64."""
        from pyarrow import compute

        found = compute.index_in(self.columns[column], value_set=names)
        if found.null_count:
            self.refuse(column, found.is_null().index(True).as_py(), f"must be an id of {where}")
        return found.to_numpy(zero_copy_only=False).astype(np.int64)

    def numbered(self, column: str, unknown: tuple[str, ...] = ()) -> tuple[np.ndarray, list[str]]:
        """Each value's place among the distinct ones, whole numbers in their order; -1 where it is unknown."""
        import pyarrow
        from pyarrow import compute

        values = self.columns[column]
        names = sorted((name for name in values.unique().to_pylist() if name not in unknown), key=_order)
        found = compute.index_in(values, value_set=pyarrow.array(names, pyarrow.string()))
        return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), names

    def refuse(self, column: str, row: int, constraint: str) -> NoReturn:
        """Raise a ValueError that names the file, the line, the column and the value."""
        value = self.columns[column][row].as_py()
        raise ValueError(f"{self.file}, line {self.lines[row]}, column {column}: {constraint}. Got {value!r}.")


def read_table(folder: Path, stem: str, *, required: tuple[str, ...], optional: tuple[str, ...] | None = None) -> Table:
    """The table `stem` of a folder, in whichever known format it stands there.

    Args:
        folder: the user's folder.
        stem: the file's name without its ending.
        required: columns that must be there.
        optional: the only others that may be there; None admits any.
    """
    path = next((folder / (stem + ending) for ending in READERS if (folder / (stem + ending)).is_file()), None)
    if path is None:
        raise ValueError(f"{folder} must hold {' or '.join(stem + ending for ending in READERS)}. Got none.")
    table = READERS[path.suffix](path)
    for column in required:
        if column not in table.columns:
            raise ValueError(f"{path.name} must have a column {column}. Got {', '.join(table.columns)}.")
    for column in table.columns:
        if optional is not None and column not in (*required, *optional):
            choices = ", ".join((*required, *optional))
            raise ValueError(f"{path.name} may have the columns {choices}. Got {column}.")
    return table


def _read_csv(path: Path) -> Table:
    """A table with a header line; empty lines are passed over."""
    import pyarrow
    from pyarrow import compute, csv

    ragged: list[csv.InvalidRow] = []

    def skip(row: csv.InvalidRow) -> str:
        ragged.append(row)
        return "skip"

    reading = csv.ReadOptions(use_threads=False)  # then rows know their number
    parsing = csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=skip)
    try:
        header = csv.open_csv(path, read_options=reading, parse_options=parsing).schema.names
        texts = csv.ConvertOptions(column_types=dict.fromkeys(header, pyarrow.string()))
        table = csv.read_csv(path, read_options=reading, parse_options=parsing, convert_options=texts)
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} must be a table in UTF-8 with a header: {error}.") from None
    names = [name.strip() for name in table.column_names]
    if ragged:
        found = f"{ragged[0].actual_columns}: {ragged[0].text!r}"
        raise ValueError(f"{path.name}, line {ragged[0].number}: {len(names)} values must stand here. Got {found}.")
    if len(set(names)) != len(names) or "" in names:
        raise ValueError(f"{path.name}, line 1: every column must have a name of its own. Got {','.join(names)!r}.")
    columns = [compute.utf8_trim_whitespace(column).combine_chunks() for column in table.columns]
    lengths = sum(np.asarray(compute.utf8_length(column)) for column in columns)
    kept = np.flatnonzero(lengths)
    if len(kept) < table.num_rows:
        columns = [column.take(kept) for column in columns]
    return Table(path.name, dict(zip(names, columns)), kept + 2)


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return float("nan")


def _order(name: str) -> tuple[bool, int, str]:
    whole = name.isascii() and name.removeprefix("-").isdigit()
    return (not whole, int(name) if whole else 0, name)


READERS: dict[str, Callable[[Path], Table]] = {".csv": _read_csv}
