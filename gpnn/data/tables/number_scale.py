"""set_number_scale: columns of numbers in standard units, or as normal deviates, by the validation nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from gpnn.data.labels import are_numbers, labelled_nodes
from gpnn.data.tables.column_kinds import choose_column
from gpnn.data.tables.node_features import Columns, encode_columns
from gpnn.data.tables.table import Table
from gpnn.data.tables.vocabulary import NumberColumn

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

MOST_COLUMNS = 256  # of numbers, beyond which they stay in standard units
MOST_NODES = 20_000  # that train, and that validate
FEWEST = 20  # validation nodes, below which nothing is chosen
STRENGTHS = (1.0, 10.0, 100.0)  # of the ridge
CERTAIN = 2.0  # standard errors by which the other scale must be better
NOTE = (
    "numbers are taken as the normal deviates of their ranks, by which a linear model predicts the validation nodes "
    "better (data.numbers=standard keeps standard units)"
)


def set_number_scale(data: Data, nodes: Table, columns: Columns) -> Columns:
    """Set `x` of `data` to normal deviates of its numbers where these are better beyond chance; return the columns.

    A linear (ridge) model of a node's numbers and of their means over its neighbours learns the training labels in
    either scale. Normal deviates are taken where its squared error on the validation nodes is less by two standard
    errors. No label of another node is read.

    Args:
        data: the graph with its edges, labels and masks, and features of the columns; `notes` may grow.
        nodes: the table of the nodes.
        columns: of the nodes, numbers in standard units.
    """
    numbers = [column for column in columns if isinstance(column, NumberColumn)]
    if not 0 < len(numbers) <= MOST_COLUMNS or data.get("val_mask") is None:
        return columns
    known = labelled_nodes(data.y).numpy()
    train, val = (_some(np.flatnonzero(data[name].numpy() & known)) for name in ("train_mask", "val_mask"))
    if len(val) < FEWEST or not len(train):
        return columns
    normal = {column.name: _as_normal(nodes, column) for column in numbers}
    rows, target = np.concatenate([train, val]), _targets(data.y, train)
    designs = (_with_neighbours(data, nodes, each, rows) for each in (numbers, list(normal.values())))
    standard_error, normal_error = (_errors(design, target, train, val) for design in designs)
    gain = standard_error - normal_error
    if not gain.mean() > CERTAIN * gain.std() / len(gain) ** 0.5:
        return columns
    chosen = tuple(normal.get(column.name, column) for column in columns)
    data.x = encode_columns(nodes, chosen)[0]
    data.notes.append(NOTE)
    return chosen


def _some(found: np.ndarray) -> np.ndarray:
    """At most `MOST_NODES` of these, evenly taken."""
    return found[:: -(-len(found) // MOST_NODES) or 1]


def _as_normal(nodes: Table, column: NumberColumn) -> NumberColumn:
    """A column of numbers as normal deviates, with what else is known of it."""
    found = choose_column(nodes, column.name, numbers="normal")
    return replace(column, quantiles=found.quantiles) if isinstance(found, NumberColumn) else column


def _targets(labels: Tensor, train: np.ndarray) -> np.ndarray:
    """What a linear model learns, `[N, C]`: zeros and ones, or numbers in units of the training nodes."""
    y = labels.numpy()
    if are_numbers(labels):
        return ((y - y[train].mean()) / (y[train].std() or 1.0))[:, None]
    return y.astype(float) if y.ndim == 2 else (y[:, None] == np.unique(y[train])).astype(float)


def _with_neighbours(data: Data, nodes: Table, columns: Sequence[NumberColumn], rows: np.ndarray) -> np.ndarray:
    """A one, the numbers, and their means over the neighbours of both directions, `[R, 1 + 2 F]`."""
    x = encode_columns(nodes, columns)[0].to_dense().numpy().astype(float)
    src, dst = data.edge_index.numpy()
    sender, receiver = np.concatenate([src, dst]), np.concatenate([dst, src])
    matrix = scipy.sparse.csr_array((np.ones(len(sender)), (receiver, sender)), shape=(len(x), len(x)))[rows]
    degree = np.maximum(1, np.diff(matrix.indptr))[:, None]
    return np.hstack([np.ones((len(rows), 1)), x[rows], (matrix @ x) / degree])


def _errors(design: np.ndarray, target: np.ndarray, train: np.ndarray, val: np.ndarray) -> np.ndarray:
    """The squared error of each validation node by the ridge that is best on all of them."""
    own, other = design[: len(train)], design[len(train) :]
    products, aims = own.T @ own, own.T @ target[train]
    found = []
    for strength in STRENGTHS:
        weights = np.linalg.solve(products + strength * np.eye(len(products)), aims)
        found.append(np.square(other @ weights - target[val]).sum(1))
    return min(found, key=np.mean)
