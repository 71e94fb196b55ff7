"""The features of nodes: from columns of their table, or from a matrix beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.data.features import csr_tensor, from_scipy
from gpnn.data.tables.column_kinds import choose_column, hash_words, read_numbers
from gpnn.data.tables.matrix import Matrix, check_finite
from gpnn.data.tables.table import Table, places
from gpnn.data.tables.vocabulary import CategoryColumn, Choices, Column, NumberColumn, TextColumn
from gpnn.storage.read import check_size

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


Columns = tuple[Column, ...]


SPARSE_BELOW = 0.2  # share of entries that are not zero


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
    further = [name for name in nodes.columns if name not in ("id", choices.label, "split")]
    if matrix is not None:
        if further and choices.vocabulary is None:
            shown = [name if len(name) <= 60 else f"{name[:59]}…" for name in further[:12]]
            raise ValueError(
                f"Features must be either in {matrix.file} or in columns of {nodes.file} "
                f"({nodes.option('ignore', ','.join(shown[:5]))} leaves columns out). Got both: {', '.join(shown)}."
            )
        check_finite(matrix)
        data.x = matrix_rows(matrix, names, nodes.file, data.notes)
        if matrix.names is not None:
            data.feature_names = matrix.names
        return ()
    known = None if choices.vocabulary is None else choices.vocabulary.columns
    columns = choose_columns(nodes, further, choices, known, data.notes)
    if columns:
        data.x, notes = encode_columns(nodes, columns)
        data.feature_names = [name for column in columns for name in column.feature_names]
        data.notes += notes
    return columns


def matrix_rows(matrix: Matrix, names: pyarrow.Array, where: str, notes: list[str], *, gaps: bool = False) -> Tensor:
    """The matrix with one row for each node, in the order of the nodes, dense or sparse CSR.

    Args:
        matrix: what was read.
        names: the ids of the nodes.
        where: the file of the nodes, for errors.
        notes: gets a line when there are rows for other nodes.
        gaps: a node without a row has NaN.
    """
    notes += matrix.notes
    values, count = matrix.values, matrix.values.shape[0]
    if matrix.ids is None:
        if count != len(names):
            raise ValueError(f"{matrix.file} must have one row for each of the {len(names)} nodes. Got {count}.")
    else:
        place = places(names, matrix.ids.names("id"))
        if place.min() < 0 and not gaps:
            node = names[int(place.argmin())].as_py()
            raise ValueError(f"{matrix.file}, column id: must name every node of {where}. Got no row for {node!r}.")
        if place.max() < 0:
            raise ValueError(f"{matrix.file}, column id: must name a node of {where}. Got none in {count} rows.")
        if others := count - int((place >= 0).sum()):
            notes.append(f"{others} rows of {matrix.file} belong to no node")
        values = values[place]
        if gaps:
            values[place < 0] = np.nan
    if isinstance(values, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(values))
    return from_scipy(values, sparse=True)


def choose_columns(
    nodes: Table, further: Sequence[str], choices: Choices, known: Columns | None, notes: list[str]
) -> Columns:
    """What the further columns of nodes or edges mean: what was known before, else by their values.

    Raises:
        ValueError: when one that was known is missing, or the values of one do not belong together.
    """
    if known is not None:
        trained = [column.name for column in known]
        nodes.require(trained)
        if extra := [name for name in further if name not in trained]:
            notes.append(f"columns that the model was not trained on are left out: {', '.join(extra[:12])}")
        return known
    columns: list[Column] = []
    for name in further:
        column = choose_column(nodes, name, categorical=choices.categorical, numbers=choices.numbers)
        if not column_width(column):
            notes.append(f"column {name} is empty and left out")
            continue
        if isinstance(column, CategoryColumn) and len(column.categories) == nodes.num_rows > 20:
            way_out = nodes.option("ignore", name)
            notes.append(f"column {name} has a category for every node, so it has no information: {way_out}")
        columns.append(column)
    return tuple(columns)


def encode_columns(nodes: Table, columns: Sequence[Column]) -> tuple[Tensor, list[str]]:
    """The features of the nodes, `[N, F]`, dense, or sparse CSR where few are not zero; and notes.

    Raises:
        ValueError: when the table lacks a column, or a value is not a number where one is needed.
    """
    notes: list[str] = []
    width = sum(column_width(column) for column in columns)
    sparse = width * SPARSE_BELOW > len(columns)
    if not sparse:
        check_size(nodes.file, 4 * nodes.num_rows * width)
    starts = pointers([column_width(column) for column in columns])
    entries = (_entries(nodes, column, notes) for column in columns)
    shifted = ((row, place + start, value) for (row, place, value), start in zip(entries, starts))
    if not sparse:
        x = np.zeros((nodes.num_rows, width), np.float32)
        for row, place, value in shifted:
            x[row, place] = value
        return torch.from_numpy(x), notes
    row, place, value = (np.concatenate(parts) for parts in zip(*shifted))
    order = np.argsort(row, kind="stable")  # features of later columns come later
    ptr = pointers(np.bincount(row, minlength=nodes.num_rows))
    return csr_tensor(ptr, place[order], value[order], (nodes.num_rows, width)), notes


def column_width(column: Column) -> int:
    """Number of features of a column, without their names."""
    return column.width if isinstance(column, TextColumn) else len(column.feature_names)


def _entries(nodes: Table, column: Column, notes: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, feature and value of what a column puts into the features, by row, features rising."""
    everyone = np.arange(nodes.num_rows)
    if isinstance(column, TextColumn):
        row, place = hash_words(nodes.columns[column.name], column.width)
        return row, place, np.ones(len(row), np.float32)
    if isinstance(column, CategoryColumn):
        place = _places(nodes, column, notes)
        known = np.flatnonzero(place >= 0)
        return known, place[known], np.ones(len(known), np.float32)
    scaled, missing = _scaled(nodes, column)
    gap = np.flatnonzero(missing)
    if len(gap) and not column.gaps:
        notes.append(f"column {column.name}: {len(gap)} missing count as the mean; the model was trained without gaps")
        gap = gap[:0]
    value = np.concatenate([scaled, np.ones(len(gap), np.float32)])
    return np.concatenate([everyone, gap]), np.repeat([0, 1], [len(everyone), len(gap)]), value


def _scaled(nodes: Table, column: NumberColumn) -> tuple[np.ndarray, np.ndarray]:
    """The numbers as features, zero where they are missing, and whether they are, `[R]` each."""
    numbers = read_numbers(nodes, column.name, date=column.date)
    missing = np.isnan(numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = _normal_deviates(numbers, column) if column.quantiles else (numbers - column.mean) / column.deviation
        scaled = np.where(missing, 0, scaled).astype(np.float32)
        bad = ~np.isfinite(scaled) | (np.abs(numbers) > np.finfo(np.float32).max)  # which scaling would hide
    if bad.any():
        nodes.refuse(column.name, int(bad.argmax()), "must be a finite number of 32 bits")
    return scaled, missing


def _normal_deviates(numbers: np.ndarray, column: NumberColumn) -> np.ndarray:
    """The normal deviate of each number's rank, `[R]`; of equal quantiles the middle one counts."""
    from scipy.special import ndtri

    knots, ranks = np.array(column.quantiles), np.linspace(0, 1, len(column.quantiles))
    rank = (np.interp(numbers, knots, ranks) - np.interp(-numbers, -knots[::-1], -ranks[::-1])) / 2
    return ndtri(np.clip(rank, 1e-3, 1 - 1e-3))


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
