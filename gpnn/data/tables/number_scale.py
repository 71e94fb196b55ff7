"""set_number_scale: columns of numbers in standard units, or as normal deviates, by cross-validation."""

from __future__ import annotations

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
MOST_NODES = 20_000  # with training labels that are read
FEWEST = 50  # of them, below which nothing is chosen
MOST_CLASSES = 1000
FOLDS = 5
STRENGTHS = (1.0, 10.0, 100.0)  # of the ridge
CERTAIN = 2.0  # standard errors by which the other scale must be better
NOTE = (
    "numbers are taken as the normal deviates of their ranks, by which a linear model predicts labels better "
    "(data.numbers=standard keeps standard units)"
)


def set_number_scale(data: Data, nodes: Table, columns: Columns) -> Columns:
    """Set `x` of `data` to normal deviates of its numbers where these are better beyond chance; return the columns.

    A linear (ridge) model of a node's numbers and of their means over its neighbours learns the training labels of four
    fifths of the training nodes in turn, in either scale. Normal deviates are taken where its squared error on the
    others is less by two standard errors. No label of a validation or test node is read.

    Args:
        data: the graph with its edges, labels and masks, and features of the columns; `notes` may grow.
        nodes: the table of the nodes.
        columns: of the nodes, numbers in standard units.
    """
    numbers = [column for column in columns if isinstance(column, NumberColumn)]
    if not 0 < len(numbers) <= MOST_COLUMNS or data.get("train_mask") is None:
        return columns
    rows = np.flatnonzero((data.train_mask & labelled_nodes(data.y)).numpy())
    if len(rows) < FEWEST:
        return columns
    rows = rows[:: -(-len(rows) // MOST_NODES)]
    target = _targets(data.y[rows])
    if target.shape[1] > MOST_CLASSES:
        return columns
    normal = {column.name: _as_normal(nodes, column) for column in numbers}
    mean = _neighbours_mean(data.edge_index.numpy(), rows, data.num_nodes)
    one = np.ones((len(rows), 1))
    either = (encode_columns(nodes, each)[0].to_dense().numpy() for each in (numbers, list(normal.values())))
    standard, normal_deviates = (_errors(np.hstack([one, x[rows], mean @ x]), target) for x in either)
    gain = standard - normal_deviates
    if not gain.mean() > CERTAIN * gain.std() / len(gain) ** 0.5:
        return columns
    chosen = tuple(normal.get(column.name, column) for column in columns)
    data.x = encode_columns(nodes, chosen)[0]
    data.notes.append(NOTE)
    return chosen


def _as_normal(nodes: Table, column: NumberColumn) -> NumberColumn:
    """A column of numbers as normal deviates, with what else is known of it."""
    found = choose_column(nodes, column.name, numbers="normal")
    return replace(column, quantiles=found.quantiles) if isinstance(found, NumberColumn) else column


def _targets(labels: Tensor) -> np.ndarray:
    """What a linear model learns, `[R, C]`: zeros and ones, or numbers in standard units."""
    y = labels.numpy()
    if are_numbers(labels):
        return ((y - y.mean()) / (y.std() or 1.0))[:, None]
    return y.astype(float) if y.ndim == 2 else (y[:, None] == np.unique(y)).astype(float)


def _neighbours_mean(edges: np.ndarray, rows: np.ndarray, num_nodes: int) -> scipy.sparse.csr_array:
    """The matrix `[R, N]` that gives the means of some nodes over their neighbours of both directions."""
    place = np.full(num_nodes, -1)
    place[rows] = np.arange(len(rows))
    own, other = np.concatenate([edges, edges[::-1]], 1)
    kept = place[own] >= 0
    receiver, sender = place[own[kept]], other[kept]
    degree = np.bincount(receiver, minlength=len(rows))
    return scipy.sparse.csr_array((1 / degree[receiver], (receiver, sender)), shape=(len(rows), num_nodes))


def _errors(design: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The squared error of each row by the ridge of the other folds, `[R]`, with the strength that is best of all."""
    fold, found = np.arange(len(design)) % FOLDS, []
    for strength in STRENGTHS:
        errors = np.empty(len(design))
        for each in range(FOLDS):
            own, held = design[fold != each], design[fold == each]
            penalty = strength * np.eye(own.shape[1])
            weights = np.linalg.solve(own.T @ own + penalty, own.T @ target[fold != each])
            errors[fold == each] = np.square(held @ weights - target[fold == each]).sum(1)
        found.append(errors)
    return min(found, key=np.mean)
