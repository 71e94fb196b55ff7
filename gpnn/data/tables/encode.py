"""Columns of the nodes as features: numbers in standard units, categories as zeros and ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import csr_tensor
from gpnn.data.tables.limits import check_size
from gpnn.data.tables.table import Table, places
from gpnn.data.tables.vocabulary import CategoryColumn, NumberColumn

if TYPE_CHECKING:
    import pyarrow

MOST_CATEGORIES = 1000
SPARSE_BELOW = 0.2  # share of entries that are not zero
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def choose_column(
    nodes: Table, name: str, *, categorical: Sequence[str] = (), numbers: str = "standard"
) -> NumberColumn | CategoryColumn:
    """What a column of the nodes means: numbers where all its values are, categories where none is.

    Args:
        nodes: the table.
        name: the column.
        categorical: columns that are categories even if their values are numbers.
        numbers: "standard" gives a number's feature mean 0 and deviation 1; "raw" leaves it as it is.

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
    """The features of the nodes, `[N, F]`, dense, or sparse CSR where few are not zero; and remarks.

    Raises:
        ValueError: when the table lacks a column, or a value is no number where one is asked for.
    """
    remarks: list[str] = []
    width = sum(len(column.feature_names) for column in columns)
    if width * SPARSE_BELOW > len(columns):
        return _sparse(nodes, columns, width, remarks), remarks
    check_size(nodes.file, 4 * nodes.num_rows * width)
    x, start = np.zeros((nodes.num_rows, width), np.float32), 0
    for column in columns:
        if isinstance(column, NumberColumn):
            x[:, start] = _standard(nodes, column)
        else:
            place = _places(nodes, column, remarks)
            known = np.flatnonzero(place >= 0)
            x[known, start + place[known]] = 1
        start += len(column.feature_names)
    return torch.from_numpy(x), remarks


def _sparse(nodes: Table, columns: Sequence[Any], width: int, remarks: list[str]) -> Tensor:
    """Each column puts at most one entry in each row, `[N, F]` CSR."""
    entries = np.full((nodes.num_rows, len(columns)), -1, np.int64)  # the column of the matrix, or none
    values = np.ones((nodes.num_rows, len(columns)), np.float32)
    start = 0
    for number, column in enumerate(columns):
        if isinstance(column, NumberColumn):
            entries[:, number], values[:, number] = start, _standard(nodes, column)
        else:
            place = _places(nodes, column, remarks)
            entries[:, number] = np.where(place >= 0, start + place, -1)
        start += len(column.feature_names)
    filled = entries >= 0
    ptr = np.concatenate([[0], np.cumsum(filled.sum(1))])
    return csr_tensor(ptr, entries[filled], values[filled], (nodes.num_rows, width))


def _standard(nodes: Table, column: NumberColumn) -> np.ndarray:
    with np.errstate(over="ignore"):
        scaled = ((nodes.numbers(column.name) - column.mean) / column.deviation).astype(np.float32)
    bad = ~np.isfinite(scaled)
    if bad.any():
        nodes.refuse(column.name, int(bad.argmax()), "must be a finite number of 32 bits")
    return scaled


def _places(nodes: Table, column: CategoryColumn, remarks: list[str]) -> np.ndarray:
    """Of each node its category, -1 where it has none or another; unseen ones are remarked on."""
    found, names = nodes.numbered(column.name)
    known = places(_names(names), _names(list(column.categories)))
    unseen = [name for name, place in zip(names, known) if place < 0]
    if unseen:
        shown = ", ".join(map(repr, unseen[:3])) + ("…" if len(unseen) > 3 else "")
        remarks.append(f"column {column.name}: {len(unseen)} unseen categories ({shown}) count as unknown")
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
