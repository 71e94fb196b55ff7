"""The features of nodes: from columns of their table, or from a matrix beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import from_scipy
from gpnn.data.tables.choices import Choices
from gpnn.data.tables.encode import choose_column, encode_columns
from gpnn.data.tables.matrix import Matrix, check_finite
from gpnn.data.tables.table import Table, places
from gpnn.data.tables.vocabulary import CategoryColumn, NumberColumn

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data

Columns = tuple[NumberColumn | CategoryColumn, ...]


def add_features(data: Data, nodes: Table, names: pyarrow.Array, matrix: Matrix | None, choices: Choices) -> Columns:
    """Give `data` its `x` and `feature_names`; the columns of the nodes that they were made of.

    Args:
        data: the graph; `remarks` may grow.
        nodes: the table of the nodes.
        names: their ids.
        matrix: features that stand in a file of their own, or None.
        choices: which columns count, and how.

    Raises:
        ValueError: when features stand in both places, or a value is none.
    """
    further = [name for name in nodes.columns if name not in ("id", choices.label, "split", *choices.ignore)]
    if matrix is not None:
        if further and choices.vocabulary is None:
            shown = [name if len(name) <= 60 else f"{name[:59]}…" for name in further[:12]]
            raise ValueError(
                f"Features must stand either in {matrix.file} or in columns of {nodes.file} "
                f"(data.ignore={','.join(shown[:5])} leaves columns out). Got both: {', '.join(shown)}."
            )
        check_finite(matrix)
        data.x = matrix_rows(matrix, names, nodes.file, data.remarks)
        if matrix.names is not None:
            data.feature_names = matrix.names
        return ()
    columns = _choose(nodes, further, choices, data.remarks)
    if columns:
        data.x, remarks = encode_columns(nodes, columns)
        data.feature_names = [name for column in columns for name in column.feature_names]
        data.remarks += remarks
    return columns


def matrix_rows(matrix: Matrix, names: pyarrow.Array, where: str, remarks: list[str]) -> Tensor:
    """The matrix with one row for each node, in the order of the nodes, dense or sparse CSR.

    Args:
        matrix: what was read.
        names: the ids of the nodes.
        where: the file of the nodes, for errors.
        remarks: grows by a line when there are rows for other nodes.
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
            remarks.append(f"{count - len(names)} rows of {matrix.file} belong to no node")
        values = values[place]
    if isinstance(values, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(values))
    return from_scipy(values, sparse=True)


def _choose(nodes: Table, further: Sequence[str], choices: Choices, remarks: list[str]) -> Columns:
    """What the further columns mean: by the vocabulary where there is one, else by their values."""
    if choices.vocabulary is not None:
        known = [column.name for column in choices.vocabulary.columns]
        nodes.require(known)
        if extra := [name for name in further if name not in known]:
            remarks.append(f"columns that the model was not trained on are left out: {', '.join(extra[:12])}")
        return choices.vocabulary.columns
    columns: list[NumberColumn | CategoryColumn] = []
    for name in further:
        column = choose_column(nodes, name, categorical=choices.categorical, numbers=choices.numbers)
        if not column.feature_names:
            remarks.append(f"column {name} is empty and left out")
            continue
        if isinstance(column, CategoryColumn) and len(column.categories) == nodes.num_rows > 20:
            remarks.append(f"column {name} has a category for every node, so it tells nothing: data.ignore={name}")
        columns.append(column)
    return tuple(columns)
