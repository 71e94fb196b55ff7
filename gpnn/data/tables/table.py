"""One table of a user's graph: plain columns that know which line they came from, by our names for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from gpnn.data.tables.column import as_text, missing_text, named
from gpnn.storage.read import shorten

if TYPE_CHECKING:
    import pyarrow

SHOWN = 80  # characters of a value that an error repeats
SETTING, ARGUMENT, FLAG = "data.{name}={value}", "{name}={value!r}", "--{name} {value}"
NEO4J = {"id": "ID", "source": "START_ID", "target": "END_ID", "type": "TYPE", "label": "LABEL"}  # `name:ID(Space)`


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a table.

    Attributes:
        file: the file's name, for errors.
        columns: name -> values as :func:`gpnn.data.tables.column.plain_column` returns them, `[R]`.
        place: the place of a row in the file ("line 7"); called only for an error, so it may be slow.
        given: the user's own name of a column that :func:`gpnn.data.tables.table.name_columns` gave another.
        notes: what the user should know of the reading.
        decimal_comma: whether a comma in a number can only be a decimal one.
        others: column that holds neither text nor numbers -> its type; :func:`name_columns` refuses or leaves out.
        written: how the user writes an option of the reader: as a setting, an argument or a flag.
    """

    file: str
    columns: dict[str, pyarrow.Array]
    place: Callable[[int], str]
    given: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    decimal_comma: bool = False
    others: Mapping[str, str] = field(default_factory=dict)
    written: str = SETTING

    @property
    def num_rows(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def option(self, name: str, value: str) -> str:
        """An option of the reader as the user writes it."""
        return self.written.format(name=name, value=value)

    def require(self, required: Sequence[str], optional: Sequence[str] | None = None) -> None:
        """Raise ValueError unless the columns are these; `optional` None admits any others."""
        for column in required:
            if column not in self.columns:
                hint = _hint(self, column)
                raise ValueError(f"{self.file} must have a column {column}{hint}. Got {_listed(self.columns)}.")
        for column in self.columns:
            if optional is not None and column not in (*required, *optional):
                choices = ", ".join((*required, *optional))
                name = column[:SHOWN]
                raise ValueError(f"{self.file} may have the columns {choices}{_way_out(self, name)}. Got {name}.")

    def numbers(self, column: str, *, gaps: bool = False) -> np.ndarray:
        """The values of a column as finite numbers, `[R]` float64; with `gaps` NaN where one is missing."""
        values = self.columns[column]
        numbers, row = parse_numbers(_mark_gaps(values) if gaps else values)
        if row is None:
            bad = np.isinf(numbers) if gaps else ~np.isfinite(numbers)
            row = int(bad.argmax()) if bad.any() else None
        if row is not None:
            self.refuse(column, row, "must be a finite number")
        return numbers

    def weights(self) -> np.ndarray:
        """The values of the column `weight` as finite numbers, `[R]` float32."""
        with np.errstate(over="ignore"):
            weights = self.numbers("weight").astype(np.float32)
        if not np.isfinite(weights).all():
            self.refuse("weight", int((~np.isfinite(weights)).argmax()), "must be a finite number of 32 bits")
        return weights

    def types(self) -> tuple[np.ndarray, list[Any]]:
        """The number of each edge's type, `[R]`, and the names of the types in the column `type`, none empty."""
        types, names = self.numbered("type")
        if len(types) and types.min() < 0:
            self.refuse("type", int(types.argmin()), "must not be empty")
        return types, names

    def names(self, column: str) -> pyarrow.Array:
        """The values of a column, none empty and none repeated: `int64` or text, `[R]`."""
        values = named(self.columns[column])
        if len(values.unique()) == len(values) and _first_empty(values) is None:
            return values
        seen: dict[Any, int] = {}
        for row, value in enumerate(_each(values)):
            if value == "":
                self.refuse(column, row, "must not be empty")
            if seen.setdefault(value, row) != row:
                self.refuse(column, row, f"must be distinct and is on {self.place(seen[value])} already")
        raise AssertionError("one value is repeated or empty")

    def positions(self, column: str, names: pyarrow.Array, where: str) -> np.ndarray:
        """Of each value its place among the distinct `names`, of the file `where`, `[R]` int64."""
        found = places(named(self.columns[column]), names)
        if len(found) and found.min() < 0:
            self.refuse_id(column, int(found.argmin()), names, where)
        return found

    def numbered(self, column: str, is_unknown: Callable[[Any], bool] | None = None) -> tuple[np.ndarray, list[Any]]:
        """Each value's place among the distinct ones, numbers in their order; -1 where it is missing or unknown."""
        import pyarrow

        is_unknown = is_unknown or _is_empty
        values = _known_names(self.columns[column], is_unknown)
        distinct = sorted(name for name in values.unique().to_pylist() if name is not None and not is_unknown(name))
        return places(values, pyarrow.array(distinct, values.type)), distinct

    def refuse_id(self, column: str, row: int, names: pyarrow.Array | None, where: str) -> NoReturn:
        """Raise the ValueError for a value that is not among `names`, the ids of `where`; None: numbers of rows."""
        value = as_text(self.columns[column])[row].as_py()
        near = None if names is None else written_otherwise(value, names)
        hint = f" ({where} has {near}: ids must be written alike)" if near else ""
        self.refuse(column, row, f"must be an id of {where}{hint}")

    def refuse(self, column: str, row: int, constraint: str) -> NoReturn:
        """Raise a ValueError that names the file, the line, the column and the value."""
        value = shorten(self.columns[column][row].as_py(), SHOWN)
        name = self.given.get(column, column)[:SHOWN]
        raise ValueError(f"{self.file}, {self.place(row)}, column {name}: {constraint}. Got {value}.")


def places(values: pyarrow.Array, names: pyarrow.Array) -> np.ndarray:
    """Of each value its place among the distinct `names`, -1 where it is not among them, `[R]` int64.

    A number is the name that it is printed as.

    >>> import pyarrow
    >>> places(pyarrow.array([5, 9]), pyarrow.array([9, 7, 5])).tolist()
    [2, 0]
    """
    from pyarrow import compute, types

    if not len(names) or not len(values):
        return np.full(len(values), -1, np.int64)
    if types.is_int64(values.type) and types.is_int64(names.type) and not values.null_count:
        low, high = (bound.as_py() for bound in compute.min_max(names).values())
        if high - low < 4 * len(names) + 1024:
            return _look_up(values.to_numpy(), names.to_numpy(), low, high)
    elif values.type != names.type:
        values, names = as_text(values), as_text(names)
    found = compute.index_in(values, value_set=names, skip_nulls=True)
    return compute.fill_null(found, -1).to_numpy().astype(np.int64)


def _mark_gaps(values: pyarrow.Array) -> pyarrow.Array:
    """The values with "nan" for every word that means a missing one."""
    from pyarrow import compute, types

    return compute.if_else(missing_text(values), "nan", values) if types.is_large_string(values.type) else values


def parse_numbers(values: pyarrow.Array) -> tuple[np.ndarray, int | None]:
    """The values as float64, `[R]`, in a copy that may be written; and the first row that is not a number."""
    import pyarrow
    from pyarrow import compute

    try:
        return np.array(compute.cast(values, pyarrow.float64(), safe=False)), None
    except pyarrow.ArrowInvalid:
        return np.empty(0), _first_that_fails(values)


def _first_that_fails(values: pyarrow.Array) -> int:
    """The first value that is not a number, by bisection: one that arrow refuses is among `values[low:high]`."""
    import pyarrow
    from pyarrow import compute

    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            compute.cast(values.slice(low, middle - low), pyarrow.float64())
            low = middle
        except pyarrow.ArrowInvalid:
            high = middle
    return low


def _look_up(values: np.ndarray, names: np.ndarray, low: int, high: int) -> np.ndarray:
    """Through a table over the range of the names, where that is not much larger than their number."""
    place = np.full(high - low + 2, -1, np.int64)  # the last entry is for values outside
    place[names - low] = np.arange(len(names))
    if values.min() >= low and values.max() <= high:
        return place.take(values - low if low else values)
    inside = (values >= low) & (values <= high)
    return place[np.where(inside, np.clip(values, low, high) - low, -1)]


def _is_empty(name: Any) -> bool:
    return name == ""


def _known_names(values: pyarrow.Array, is_unknown: Callable[[Any], bool]) -> pyarrow.Array:
    """The values as names, null where they are missing; gaps do not keep whole numbers from being numbers."""
    import pyarrow
    from pyarrow import compute, types

    if types.is_int64(values.type):
        return values
    if types.is_floating(values.type):
        missing = compute.is_nan(values)
    else:
        unknown = [word for word in values.unique().to_pylist() if is_unknown(word)]
        missing = compute.is_in(values, pyarrow.array(unknown, values.type))
    known = named(values.filter(compute.invert(missing)))
    if not types.is_int64(known.type):
        return compute.if_else(missing, None, as_text(values))
    gaps = missing.to_numpy(zero_copy_only=False)
    filled = np.zeros(len(values), np.int64)
    filled[~gaps] = known.to_numpy()
    return pyarrow.array(filled, mask=gaps)


def _each(values: pyarrow.Array, batch: int = 1 << 14) -> Iterator[Any]:
    """The values one by one, converted batch by batch as they are needed."""
    for start in range(0, len(values), batch):
        yield from values.slice(start, batch).to_pylist()


def _first_empty(values: pyarrow.Array) -> int | None:
    from pyarrow import types

    row = -1 if types.is_int64(values.type) or not len(values) else values.index("").as_py()
    return row if row >= 0 else None


def written_otherwise(value: str, names: pyarrow.Array) -> str | None:
    """The name that is the same number as `value`, differently written, if there is one."""
    import pyarrow

    try:
        number = float(value)
        same = repr(int(number)) if number.is_integer() else None
    except (ValueError, OverflowError):
        return None
    if same is None or same == value:
        return None
    found = places(pyarrow.array([same], pyarrow.large_string()), as_text(names))
    return None if found[0] < 0 else repr(names[int(found[0])].as_py())


# What other programs call a column; the user says so, since each may mean something else.
SYNONYMS = {
    "id": ("node", "node_id", "nodeid", "name", "key", "user", "user_id", "_id"),
    "source": ("from", "src", "start", "head", "u", "node1", "source_id", "from_id", "_start", "follower"),
    "target": ("to", "dst", "dest", "end", "tail", "v", "node2", "target_id", "to_id", "_end", "followee"),
}


def _hint(table: Table, column: str) -> str:
    """What may be wrong with a header, where it shows."""
    likely = next((name for name in table.columns if name.lower() in SYNONYMS.get(column, ())), None)
    if likely is not None:
        return f" ({table.option(column, likely)} takes that for it)"
    if any(name.lstrip("-").isdigit() for name in table.columns):
        return ", named in its first line"
    return f" ({table.option(column, 'NAME')} takes another for it)" if column in SYNONYMS else ""


def _way_out(table: Table, name: str) -> str:
    ways = [f"{table.option('ignore', name)} leaves it out"]
    ways += [f"{table.option(use, name)} makes it the {use}" for use in ("weight", "type") if use not in table.columns]
    return f" ({', '.join(ways)})"


def _listed(names: Sequence[str] | dict[str, Any]) -> str:
    names = [name[:SHOWN] for name in names]
    return (", ".join(names[:12]) or "none") + (f" and {len(names) - 12} others" if len(names) > 12 else "")


def shifted(place: Callable[[int], str], start: int, row: int) -> str:
    """The place of a row of a part that begins at row `start`."""
    return place(start + row)


def name_columns(table: Table, names: Mapping[str, str], ignore: Collection[str] = ()) -> Table:
    """The table with our names for the columns that the user calls by others, without those to ignore.

    A column is found by its exact name, else by the name in any case, else by Neo4j's mark for it (`:START_ID`).

    Args:
        table: as it was read.
        names: our name -> the user's; where they are equal the table need not have the column.
        ignore: columns to leave out, of any type, by the user's names.

    Raises:
        ValueError: when a column that the user named is missing, or another one has our name; or when one that is not
            to be ignored holds neither text nor numbers.
    """
    if table.given:  # named already
        return table
    table = _leave_out(table, ignore)
    found = {ours: find_column(table.columns, theirs) for ours, theirs in names.items()}
    table.require([theirs for ours, theirs in names.items() if ours != theirs and found[ours] is None])
    others = {ours: name for ours, name in found.items() if name is not None and name != ours}
    for ours, theirs in others.items():
        if ours in table.columns and ours not in others.values():
            raise ValueError(f"{table.file} must not have a column {ours} where it is called {theirs}. Got both.")
    return apply_names(table, others)


def _leave_out(table: Table, ignore: Collection[str]) -> Table:
    ignored = {find_column((*table.columns, *table.others), name) for name in ignore}
    for name, kind in table.others.items():
        if name not in ignored:
            way_out = f"({table.option('ignore', name[:SHOWN])} leaves it out)"
            raise ValueError(f"{table.file}, column {name[:SHOWN]}: must hold text or numbers {way_out}. Got {kind}.")
    kept = {name: values for name, values in table.columns.items() if name not in ignored}
    return replace(table, columns=kept, others={})


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
