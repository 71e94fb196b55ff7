"""NodeInput: what an estimator is given, a graph, arrays that one joins, or nodes of one, as a checked `Data`."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils.validation import validate_data
from torch import Tensor

from gpnn.data.arrays import (
    TEXT_HINT,
    data_from_arrays,
    encode_labels,
    encode_numbers,
    first_text,
    read_frame,
    to_features,
)
from gpnn.data.check import check_data, check_sample_weight
from gpnn.data.labels import check_trainable, labelled_nodes
from gpnn.data.splits import MASKS
from gpnn.data.tables.node_features import Columns, choose_columns, encode_columns
from gpnn.data.tables.table import Table
from gpnn.data.tables.vocabulary import Choices, Vocabulary
from gpnn.graph import Graph
from gpnn.run.known_nodes import find_nodes
from gpnn.train.notes import NoteWarning

if TYPE_CHECKING:
    from torch_geometric.data import Data

LABELS = ("y", *MASKS, "num_classes", "class_names", "sample_weight")  # of a graph whose nodes come with their own


@dataclass(frozen=True, eq=False)
class NodeInput:
    """A graph, and which of its nodes are requested.

    Attributes:
        data: the whole graph, checked.
        classes: that the labels number, where they were given apart from the graph; None: `data` knows them.
        rows: the rows of the nodes requested, in their order, int64 `[n]`; None: all.
    """

    data: Data
    classes: np.ndarray | None = None
    rows: np.ndarray | None = None

    def pick(self, values: Any) -> Any:
        """Of values of every node, an array or a tensor `[N, …]`, those of the nodes requested."""
        return values if self.rows is None else values[self.rows]

    def own_labels(self) -> Tensor:
        """The labels that the graph itself has.

        Raises:
            ValueError: when it has none.
        """
        if self.data.get("y") is None:
            raise ValueError("`y` must give the labels to compare predictions with. Got none.")
        return self.data.y

    def scored_nodes(self, labels: Tensor, *, all_labels: bool) -> np.ndarray:
        """Which of the nodes with these labels a score counts, bool: the labelled ones, of the graph's `test_mask`.

        With `all_labels` the mask does not matter.
        """
        known, mask = labelled_nodes(labels), self.data.get("test_mask")
        return (known if all_labels or mask is None else known & mask).numpy()


def is_graph(value: Any) -> bool:
    """Whether a value is a PyG `Data` or `HeteroData`."""
    return hasattr(value, "edge_index") or hasattr(value, "edge_types")


def read_graph(data: Any, task: str, sample_weight: Any = None) -> NodeInput:
    """A PyG `Data` or `HeteroData` with its own labels and masks."""
    checked = check_data(data, task)
    if sample_weight is not None:
        checked.sample_weight = check_sample_weight(sample_weight, checked.num_nodes)
    return NodeInput(checked)


def read_arrays(x: Any, y: Any, adjacency: Any, task: str, sample_weight: Any = None) -> NodeInput:
    """Features of all nodes of a graph, and their labels."""
    data, classes = data_from_arrays(x, y, adjacency, task)
    return replace(read_graph(data, task, sample_weight), classes=classes)


def frame_table(x: Any, *, known: bool = False) -> Table | None:
    """A data frame that has text or gaps, as a table, any one where its columns are `known`; None of other values."""
    from pyarrow import types

    if not hasattr(x, "columns"):
        return None
    table = read_frame("X", x)
    if known:
        return table
    text = any(types.is_large_string(values.type) for values in table.columns.values())
    return table if text or not all(np.isfinite(values.to_numpy()).all() for values in table.columns.values()) else None


def read_columns(
    table: Table, columns: Columns | None, y: Any, adjacency: Any, task: str, sample_weight: Any = None
) -> NodeInput:
    """Columns of all nodes of a graph, whose values say what they mean, or which `columns` learnt it, and labels.

    Warns:
        NoteWarning: of what was decided on the user's behalf.
    """
    data, classes = data_from_arrays(None, y, adjacency, task)
    if table.num_rows != data.num_nodes:
        raise ValueError(f"`X` must have one row for each of the {data.num_nodes} nodes. Got {table.num_rows}.")
    notes: list[str] = []
    columns = choose_columns(table, list(table.columns), Choices(), columns, notes)
    data.x, more = encode_columns(table, columns)
    data.vocabulary, data.feature_names = Vocabulary(columns), Vocabulary(columns).feature_names
    for note in (*notes, *more):
        warnings.warn(note, NoteWarning, stacklevel=4)
    return replace(read_graph(data, task, sample_weight), classes=classes)


def read_nodes(nodes: Any, y: Any, graph: Any, task: str, sample_weight: Any = None) -> NodeInput:
    """Nodes of a graph that has all features; the labels of these nodes are all that is known.

    Labels, masks and weights that the graph has of its own are left out, so that what a cross-validation holds back
    stays hidden.

    Args:
        nodes: the user's ids, or rows where nodes have none, `[n]` or `[n, 1]`.
        y: a label of each, as of :func:`gpnn.data.arrays.data_from_arrays`, or None.
        graph: a PyG `Data` or `HeteroData`, or a :class:`gpnn.Graph`.
        task: "classification" or "regression".
        sample_weight: of each of these nodes, `[n]`, or None.

    Raises:
        ValueError: when a node is not one of the graph's, or one that has a label is named twice.
    """
    data = graph_of(graph)
    rows = find_nodes(data, nodes)
    if y is None:
        return NodeInput(check_data(data, task), None, rows)
    labels, classes = (encode_numbers(y), None) if task == "regression" else encode_labels(y)
    if len(labels) != len(rows):
        raise ValueError(f"`y` must have one label for each of the {len(rows)} nodes of `X`. Got {len(labels)}.")
    distinct, count = np.unique(rows, return_counts=True)
    if len(distinct) < len(rows):
        raise ValueError(
            f"`X` must name a node once where it comes with a label. Got row {distinct[count > 1][0]} twice."
        )
    check_trainable(labels, classes)
    unknown = float("nan") if task == "regression" else -1
    data.y = labels.new_full((data.num_nodes, *labels.shape[1:]), unknown)
    data.y[rows] = labels
    data.train_mask = labelled_nodes(data.y)
    if classes is not None:
        data.num_classes = len(classes)
    if sample_weight is not None:
        data.sample_weight = torch.zeros(data.num_nodes)
        data.sample_weight[rows] = check_sample_weight(sample_weight, len(rows))
    return NodeInput(check_data(data, task), classes, rows)


def graph_of(graph: Any) -> Data:
    """The structure, features and ids of a graph, without its labels, masks and weights.

    Raises:
        ValueError: when it is not a PyG `Data` or `HeteroData`, or a :class:`gpnn.Graph`.
    """
    if isinstance(graph, Graph):
        return graph.to_data()
    if not is_graph(graph):
        raise ValueError(
            "`graph` must be a PyG Data or HeteroData, or a gpnn.Graph (`gpnn.Graph.from_scipy`, `.from_networkx`). "
            f"Got {type(graph).__name__}."
        )
    bare = copy(check_data(graph))
    for name in LABELS:
        if name in bare:
            del bare[name]
    bare.num_nodes = graph.num_nodes  # which labels may have told
    if bare.get("vocabulary") is not None:
        bare.vocabulary = replace(bare.vocabulary, classes=None)
    return bare


def check_features(estimator: Any, x: Any, *, reset: bool) -> Any:
    """Features as scikit-learn checks them, float32 `[N, F]`, dense or sparse CSR; None stays None.

    Args:
        estimator: whose `n_features_in_` and `feature_names_in_` they are compared with.
        x: what the user gave.
        reset: set these attributes instead.

    Raises:
        ValueError: in scikit-learn's words, or naming a column of text.
    """
    if x is None:
        return None
    try:
        return validate_data(estimator, x, reset=reset, accept_sparse="csr", dtype=np.float32)
    except ValueError as error:
        if not str(error).startswith("could not convert"):
            raise
        raise ValueError(f"`X` must hold numbers; {TEXT_HINT}. Got {first_text(x) or str(error)[:100]}.") from None


def fit_columns(transformer: Any, data: Data) -> tuple[Any, Data]:
    """A clone of a transformer of scikit-learn, fitted to the training nodes, and the graph with its columns."""
    rows = labelled_nodes(data.y) if data.get("train_mask") is None else data.train_mask
    made = clone(transformer).fit(_to_numpy(data.get("x"))[rows.numpy()], data.y[rows].numpy())
    return made, apply_columns(made, data)


def apply_columns(transformer: Any, data: Data) -> Data:
    """The graph with the columns that a fitted transformer makes of its features."""
    data = copy(data)
    data.x = to_features(transformer.transform(_to_numpy(data.get("x"))))
    return data


def _to_numpy(x: Tensor | None) -> Any:
    """Features as scikit-learn takes them."""
    from scipy.sparse import csr_array

    if x is None:
        raise ValueError("`columns` transforms features. Got a graph that has none.")
    if x.layout == torch.strided:
        return x.numpy()
    return csr_array((x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()), shape=tuple(x.shape))
