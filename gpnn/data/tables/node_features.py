"""The features of nodes: from columns of their table, or from a matrix beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.data.features import csr_tensor, from_scipy
from gpnn.data.tables.matrix import Matrix, check_finite
from gpnn.data.tables.table import Table, places
from gpnn.data.tables.vocabulary import CategoryColumn, Choices, NumberColumn
from gpnn.storage.read import check_size

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


Columns = tuple[NumberColumn | CategoryColumn, ...]


MOST_CATEGORIES = 1000
SPARSE_BELOW = 0.2  # share of entries that are not zero
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def add_features(data: Data, nodes: Table, names: pyarrow.Array, matrix: Matrix | None, choices: Choices) -> Columns:
    """Set `x` and `feature_names` of `data`; return the columns of the nodes that they were made of.

    Args:
        data: the graph; `notes` may grow.
        nodes: the table of the nodes.
        names: their ids.
        matrix: features from a separate file, or None.
        choices: which columns count, and how.

    Raises:
        ValueError: when both places have features, or a value cannot be one.
    """
    further = [name for name in nodes.columns if name not in ("id", choices.label, "split", *choices.ignore)]
    if matrix is not None:
        if further and choices.vocabulary is None:
            shown = [name if len(name) <= 60 else f"{name[:59]}…" for name in further[:12]]
            raise ValueError(
                f"Features must be either in {matrix.file} or in columns of {nodes.file} "
                f"(data.ignore={','.join(shown[:5])} leaves columns out). Got both: {', '.join(shown)}."
            )
        check_finite(matrix)
        data.x = matrix_rows(matrix, names, nodes.file, data.notes)
        if matrix.names is not None:
            data.feature_names = matrix.names
        return ()
    columns = _choose(nodes, further, choices, data.notes)
    if columns:
        data.x, notes = encode_columns(nodes, columns)
        data.feature_names = [name for column in columns for name in column.feature_names]
        data.notes += notes
    return columns


def matrix_rows(matrix: Matrix, names: pyarrow.Array, where: str, notes: list[str]) -> Tensor:
    """The matrix with one row for each node, in the order of the nodes, dense or sparse CSR.

    Args:
        matrix: what was read.
        names: the ids of the nodes.
        where: the file of the nodes, for errors.
        notes: gets a line when there are rows for other nodes.
    """
    values, count = matrix.values, matrix.values.shape[0]
    if matrix.ids is None:
        if count != len(names):
            raise ValueError(f"{matrix.file} must have one row for each of the {len(names)} nodes. Got {count}.")
    else:
        place = places(names, matrix.ids.names("id"))
        if place.min() < 0:
            node = names[int(place.argmin())].as_py()
            raise ValueError(f"{matrix.file}, column id: must name every node of {where}. Got no row for {node!r}.")
        if count > len(names):
            notes.append(f"{count - len(names)} rows of {matrix.file} belong to no node")
        values = values[place]
    if isinstance(values, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(values))
    return from_scipy(values, sparse=True)


def _choose(nodes: Table, further: Sequence[str], choices: Choices, notes: list[str]) -> Columns:
    """What the further columns mean: by the vocabulary where there is one, else by their values."""
    if choices.vocabulary is not None:
        known = [column.name for column in choices.vocabulary.columns]
        nodes.require(known)
        if extra := [name for name in further if name not in known]:
            notes.append(f"columns that the model was not trained on are left out: {', '.join(extra[:12])}")
        return choices.vocabulary.columns
    columns: list[NumberColumn | CategoryColumn] = []
    for name in further:
        column = choose_column(nodes, name, categorical=choices.categorical, numbers=choices.numbers)
        if not column.feature_names:
            notes.append(f"column {name} is empty and left out")
            continue
        if isinstance(column, CategoryColumn) and len(column.categories) == nodes.num_rows > 20:
            notes.append(f"column {name} has a category for every node, so it has no information: data.ignore={name}")
        columns.append(column)
    return tuple(columns)


def choose_column(
    nodes: Table, name: str, *, categorical: Sequence[str] = (), numbers: str = "standard"
) -> NumberColumn | CategoryColumn:
    """What a column of the nodes means: numbers where all its values are, categories where none is.

    Args:
        nodes: the table.
        name: the column.
        categorical: columns that are categories even if their values are numbers.
        numbers: "standard" scales numbers to mean 0 and deviation 1; "raw" leaves them as they are.

    Raises:
        ValueError: for numbers and text side by side, a missing number, or more than 1,000 categories.
    """
    from pyarrow import compute, types

    values = nodes.columns[name]
    if name in categorical:
        return _categories(nodes, name)
    if types.is_large_string(values.type):
        alike = compute.match_substring_regex(values, NUMBER)
        if not compute.any(alike).as_py():
            return _categories(nodes, name)
        if not compute.all(alike).as_py():
            row = alike.index(False).as_py()
            hint = f", like the others (data.categorical={name} makes all of them categories)"
            empty = f" (data.ignore={name} leaves the column out)"
            nodes.refuse(name, row, "must be a finite number" + (hint if values[row].as_py() else empty))
    numbers_of = nodes.numbers(name)
    if numbers == "raw":
        return NumberColumn(name)
    return NumberColumn(name, float(numbers_of.mean()), float(numbers_of.std()) or 1.0)


def encode_columns(nodes: Table, columns: Sequence[NumberColumn | CategoryColumn]) -> tuple[Tensor, list[str]]:
    """The features of the nodes, `[N, F]`, dense, or sparse CSR where few are not zero; and notes.

    Raises:
        ValueError: when the table lacks a column, or a value is not a number where one is needed.
    """
    notes: list[str] = []
    width = sum(len(column.feature_names) for column in columns)
    if width * SPARSE_BELOW > len(columns):
        return _sparse(nodes, columns, width, notes), notes
    check_size(nodes.file, 4 * nodes.num_rows * width)
    x, start = np.zeros((nodes.num_rows, width), np.float32), 0
    for column in columns:
        if isinstance(column, NumberColumn):
            x[:, start] = _standard(nodes, column)
        else:
            place = _places(nodes, column, notes)
            known = np.flatnonzero(place >= 0)
            x[known, start + place[known]] = 1
        start += len(column.feature_names)
    return torch.from_numpy(x), notes


def _sparse(nodes: Table, columns: Sequence[Any], width: int, notes: list[str]) -> Tensor:
    """Each column puts at most one entry in each row, `[N, F]` CSR."""
    entries = np.full((nodes.num_rows, len(columns)), -1, np.int64)  # the column of the matrix, or none
    values = np.ones((nodes.num_rows, len(columns)), np.float32)
    start = 0
    for number, column in enumerate(columns):
        if isinstance(column, NumberColumn):
            entries[:, number], values[:, number] = start, _standard(nodes, column)
        else:
            place = _places(nodes, column, notes)
            entries[:, number] = np.where(place >= 0, start + place, -1)
        start += len(column.feature_names)
    filled = entries >= 0
    ptr = pointers(filled.sum(1))
    return csr_tensor(ptr, entries[filled], values[filled], (nodes.num_rows, width))


def _standard(nodes: Table, column: NumberColumn) -> np.ndarray:
    numbers = nodes.numbers(column.name)
    with np.errstate(over="ignore"):
        scaled = ((numbers - column.mean) / column.deviation).astype(np.float32)
    bad = ~np.isfinite(scaled) | (np.abs(numbers) > np.finfo(np.float32).max)  # which scaling would hide
    if bad.any():
        nodes.refuse(column.name, int(bad.argmax()), "must be a finite number of 32 bits")
    return scaled


def _places(nodes: Table, column: CategoryColumn, notes: list[str]) -> np.ndarray:
    """Of each node its category, -1 where it has none or another; unseen ones get a note."""
    found, names = nodes.numbered(column.name)
    known = places(_names(names), _names(list(column.categories)))
    unseen = [name for name, place in zip(names, known) if place < 0]
    if unseen:
        shown = ", ".join(map(repr, unseen[:3])) + ("…" if len(unseen) > 3 else "")
        notes.append(f"column {column.name}: {len(unseen)} unseen categories ({shown}) count as unknown")
    return np.append(known, -1)[found]  # -1 finds the entry that was appended


def _names(names: list[Any]) -> pyarrow.Array:
    import pyarrow

    return pyarrow.array(names) if names else pyarrow.array([], pyarrow.int64())


def _categories(nodes: Table, name: str) -> CategoryColumn:
    names = nodes.numbered(name)[1]
    if len(names) > MOST_CATEGORIES:
        raise ValueError(
            f"{nodes.file}, column {name[:80]}: must hold numbers or at most {MOST_CATEGORIES:,} categories "
            f"(data.ignore={name} leaves it out). Got {len(names):,}."
        )
    return CategoryColumn(name, tuple(names))
