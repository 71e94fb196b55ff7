"""PyG's `Data` of arrays in scikit-learn's manner (X, y with −1 for unlabelled, adjacency), and of frames; and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.check import check_data
from gpnn.data.features import from_scipy
from gpnn.data.labels import check_labels, check_names, check_trainable, is_missing, is_unlabelled, labelled_nodes
from gpnn.data.splits import split_fractions, strata
from gpnn.data.tables import join_edges
from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.binary import plain_table
from gpnn.data.tables.table import ARGUMENT, Table, name_columns
from gpnn.data.tables.vocabulary import Choices, Vocabulary
from gpnn.graph import Graph, as_graph

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


TEXT_HINT = "`gpnn.from_frames` makes features of columns of text"


def data_from_arrays(x: Any, y: Any, adjacency: Any, task: str = "auto") -> tuple[Data, np.ndarray | None]:
    """A `Data` whose labelled nodes train, and the classes that its labels number; None for a regression.

    Args:
        x: features, an array or a scipy sparse matrix `[N, F]`, or None.
        y: a label per node, −1, NaN, None or "" where it is unknown, `[N]`; zeros and ones for C labels per node,
            `[N, C]`; None where there are no labels. Of a regression: a number per node, NaN, None or "" where unknown.
        adjacency: what :func:`gpnn.graph.as_graph` takes, or a dense array `[N, N]`, with N nodes.
        task: "regression", else the labels are classes.

    Raises:
        ValueError: when there is no adjacency, the lengths differ, or the labels are not classes.
    """
    if adjacency is None:
        raise ValueError(
            "Arrays must come with `adjacency`, the graph that joins their rows, or be nodes of a `graph` (frames: "
            f"`gpnn.from_frames(nodes, edges)`; networkx: `gpnn.load_dataset(graph)`). Got {type(x).__name__} alone."
        )
    data = _graph(adjacency).to_data()
    if x is not None:
        data.x = to_features(x)
        if data.x.shape[0] != data.num_nodes:
            raise ValueError(f"`X` must have one row for each of the {data.num_nodes} nodes. Got {data.x.shape[0]}.")
    if y is None:
        return data, None
    labels, classes = (encode_numbers(y), None) if task == "regression" else encode_labels(y)
    if len(labels) != data.num_nodes:
        raise ValueError(f"`y` must have one label for each of the {data.num_nodes} nodes. Got {len(labels)}.")
    check_trainable(labels, classes)
    data.y, data.train_mask = labels, labelled_nodes(labels)
    if classes is not None:
        data.num_classes = len(classes)
    return data, classes


def encode_numbers(y: Any) -> Tensor:
    """The numbers of a regression, float64 `[N]`, NaN where they are missing.

    >>> encode_numbers([2, None, -1.5]).tolist()
    [2.0, nan, -1.5]

    Raises:
        ValueError: when one is not a number, is infinite, or there are several per node.
    """
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1:
        raise ValueError(f"`y` of a regression must have one number per node. Got {values.shape[1]} columns.")
    values = values.ravel()
    if values.dtype.kind not in "iuf":
        values = np.array([np.nan if is_missing(value) else _number(value) for value in values.tolist()], np.float64)
    return check_labels(torch.from_numpy(values.astype(np.float64)), len(values), "regression")


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"`y` of a regression must hold numbers, NaN where unknown. Got {value!r}.") from None


def encode_labels(y: Any) -> tuple[Tensor, np.ndarray]:
    """The number of each label among the sorted classes, −1 where it is unknown, and the classes.

    Zeros and ones for C labels per node, `[N, C]`, come back as :func:`gpnn.data.labels.check_labels` gives them.

    >>> numbers, classes = encode_labels([5, -1, 3, 5])
    >>> numbers.tolist(), classes.tolist()
    ([1, -1, 0, 1], [3, 5])
    """
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1:
        labels = torch.from_numpy(np.require(values, requirements=["C", "W"]))
        return check_labels(labels, len(values)), np.arange(values.shape[1])
    values = values.ravel()
    known = _known(values)
    found = values[known]
    classes, numbers = np.unique(found.tolist() if found.dtype == object else found, return_inverse=True)
    check_names(classes.tolist(), "`y`")
    labels = torch.full((len(values),), -1, dtype=torch.int64)
    labels[torch.from_numpy(known)] = torch.from_numpy(numbers.astype(np.int64))
    return labels, classes


def _known(values: np.ndarray) -> np.ndarray:
    """Which entries are labels, `[N]` bool."""
    if values.dtype == object:  # of any types, which need not have an order
        return np.array([not is_unlabelled(value) for value in values], bool)
    distinct, place = np.unique(values, return_inverse=True)
    return ~np.array([is_unlabelled(value) for value in distinct.tolist()], bool)[place]


def hold_out(data: Data, fraction: float, seed: int) -> Data:
    """`data` with validation nodes: its own where it has any, else a share of the training nodes.

    The share is drawn class by class; of nodes with several labels, or with numbers, from all alike. Nodes of weight 0
    are in neither.
    """
    mask = data.get("train_mask")
    mask = labelled_nodes(data.y) if mask is None else mask
    if data.get("sample_weight") is not None:
        mask = mask & (data.sample_weight > 0)
        if not mask.any():
            raise ValueError("`sample_weight` must give some labelled node a weight above 0. Got zeros alone.")
    if data.get("val_mask") is not None or not fraction:
        return _with(data, train_mask=mask)
    split = split_fractions(torch.where(mask, strata(data.y), -1), train=1 - fraction, val=fraction, seed=seed)
    return _with(data, train_mask=split.train_mask | split.test_mask, val_mask=split.val_mask)


def _with(data: Data, **attributes: Tensor) -> Data:
    from copy import copy

    changed = copy(data)
    for name, value in attributes.items():
        changed[name] = value
    return changed


def _graph(adjacency: Any) -> Graph:
    if isinstance(adjacency, np.ndarray | list | Tensor):
        from scipy.sparse import coo_matrix

        adjacency = coo_matrix(np.asarray(adjacency))
    return as_graph(adjacency)


def to_features(x: Any) -> Tensor:
    """An array or a scipy sparse matrix as features, float32 `[N, F]`, dense or sparse CSR as it came.

    Raises:
        ValueError: when it does not hold numbers.
    """
    try:
        given = x.tocsr() if hasattr(x, "tocsr") else np.asarray(x)
        if np.iscomplexobj(given):
            raise TypeError(f"complex numbers, {given.dtype}")
        if hasattr(x, "tocsr"):
            return from_scipy(given, sparse=True)
        # pandas gives arrays that may not be written
        return torch.from_numpy(np.require(given, np.float32, ["C", "W"]))
    except (ValueError, TypeError) as error:
        raise ValueError(f"`X` must hold numbers; {TEXT_HINT}. Got {first_text(x) or str(error)[:100]}.") from None


def first_text(x: Any) -> str:
    """The first value of a frame that is not a number, and its column; "" of what is no frame."""
    for name in getattr(x, "column_names", getattr(x, "columns", ())):
        for value in np.asarray(x[name]).tolist() if isinstance(name, str) else ():
            try:
                float(value)
            except (ValueError, TypeError):
                return f"{str(value)[:50]!r} in column {name!r}"
    return ""


PACKAGES = ("pandas", "polars", "duckdb")  # packages whose frames are answered in their own kind; others: pyarrow
INDEX = "__index_level_"  # what pyarrow calls an index of pandas that has no name


def from_frames(
    nodes: Any,
    edges: Any,
    vocabulary: Vocabulary | None = None,
    *,
    id: str = "id",
    source: str = "source",
    target: str = "target",
    type: str = "type",
    weight: str = "weight",
    label: str = "label",
    edge_features: str | Sequence[str] = (),
    categorical: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    numbers: str = "standard",
    undirected: bool = False,
    task: str = "auto",
    seed: int = 0,
) -> Data:
    """The graph that a frame of nodes and a frame of edges describe, read as a folder of tables is.

    A frame is one of pandas, of polars, a pyarrow table, a DuckDB relation, or any object with Arrow's
    `__arrow_c_stream__`. An index of pandas that has a name is a column; one without is left out. Columns, classes and
    missing labels mean what they mean in :func:`gpnn.data.tables.tables`; errors call the tables `nodes` and `edges`.

    Args:
        nodes: a row per node; None: the nodes that the edges name.
        edges: a row per edge; besides its ends it may have `type`, `weight` and features. A dictionary of frames has
            the edges of one type each, by its name.
        vocabulary: of the frames that a model was trained on: columns, classes and edge types keep its meaning.
        id: the column of the nodes that names them.
        source: the column of the edges that names the node a message comes from.
        target: the column of the edges that names the node it goes to.
        type: the column of the edges that holds their type.
        weight: the column of the edges that holds their weight.
        label: the column of the nodes that holds the class or the number to predict.
        edge_features: columns of the edges for `data.edge_attr`, which `gpnn.nn.Scheduled` takes, listed likewise.
        categorical: columns that are categories though they look like numbers, in a list or separated by commas.
        ignore: columns that are not features, likewise.
        numbers: "standard", "normal" or "raw": how columns of numbers are scaled.
        undirected: add the reverse of every edge that lacks it.
        task: what the label is: "classification", "regression" (a number), or "auto".
        seed: of the random split, where the nodes have no column `split`.

    Returns:
        `Data` as :func:`gpnn.load_dataset` gives it, with `frame_kind`, the package that the nodes came from, and
        `frame_columns`, what columns are called.

    Raises:
        ValueError: in one sentence that names the table, the row, the column and the value.

    >>> import pyarrow
    >>> nodes = pyarrow.table({"id": ["ann", "bob", "cleo"], "label": ["chess", "choir", None], "age": [31, 45, 22]})
    >>> edges = pyarrow.table({"from": ["ann", "cleo"], "to": ["cleo", "bob"]})
    >>> data = from_frames(nodes, edges, source="from", target="to", undirected=True)
    >>> data.class_names, data.y.tolist(), data.feature_names
    (['chess', 'choir'], [0, 1, -1], ['age'])
    """
    choices = Choices(
        vocabulary=vocabulary, id=id, source=source, target=target, type=type, weight=weight, label=label,
        edge_features=edge_features, categorical=categorical, ignore=ignore, numbers=numbers, undirected=undirected,
        task=task, seed=seed,
    )  # fmt: skip
    rows = None if nodes is None else read_frame("nodes", nodes, choices.ignore)
    data = check_data(assemble(rows, _read_edges(edges, choices), choices))
    first = next(iter(edges.values())) if isinstance(edges, dict) else edges
    data.frame_kind = kind_of_frame(first if nodes is None else nodes)
    data.frame_columns = {
        "id": id, "source": source, "target": target, "type": type, "weight": weight, "label": label, "ignore": ignore,
    }  # fmt: skip
    return data


def _read_edges(edges: Any, choices: Choices) -> Table:
    if not isinstance(edges, dict):
        return read_frame("edges", edges, choices.ignore)
    if not edges:
        raise ValueError("`edges` must hold at least one frame. Got an empty dictionary.")
    parts = [
        name_columns(read_frame(f"edges of {name}", each, choices.ignore), choices.edge_names, choices.ignore)
        for name, each in edges.items()
    ]
    return replace(join_edges(parts, [str(name) for name in edges]), notes=())


def read_frame(name: str, frame: Any, ignore: Sequence[str] = ()) -> Table:
    """A frame as a table of plain columns, which errors call `name`; of pandas without objects that are to be ignored.

    Raises:
        ValueError: when it is not a frame, or a column mixes types.
    """
    if kind_of_frame(frame) == "pandas" and hasattr(frame, "drop"):
        frame = frame.drop(columns=list(ignore), errors="ignore")
    table = to_arrow(name, frame)
    kept = table.select([each for each in table.column_names if not each.startswith(INDEX)])
    return replace(plain_table(name, kept), written=ARGUMENT)


def to_arrow(name: str, frame: Any) -> pyarrow.Table:
    """A frame as a pyarrow table, by Arrow's C stream, or by the frame's own method where it has none.

    Raises:
        ValueError: when it is no frame, or a column mixes types.
    """
    import pyarrow

    if isinstance(frame, pyarrow.Table):
        return frame
    try:
        if hasattr(frame, "collect") and kind_of_frame(frame) == "polars":  # a lazy one
            frame = frame.collect()
        if hasattr(frame, "__arrow_c_stream__"):
            return pyarrow.table(frame)
        if kind_of_frame(frame) == "pandas":
            return pyarrow.Table.from_pandas(frame)
        if hasattr(frame, "to_arrow_table"):
            return frame.to_arrow_table()
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"`{name}` must be a frame of columns with one type and one name each (`astype(str)` makes text of one). "
            f"Got: {_shorten(error)}."
        ) from None
    raise ValueError(f"`{name}` must be a data frame of pandas, polars, pyarrow or DuckDB. Got {type(frame).__name__}.")


def kind_of_frame(frame: Any) -> str:
    """The package that a frame came from: "pandas", "polars", "duckdb", or "pyarrow" for all others."""
    package = type(frame).__module__.partition(".")[0].lstrip("_")
    return package if package in PACKAGES else "pyarrow"


def to_frame(table: pyarrow.Table, kind: str | None) -> Any:
    """A table as a frame of the kind that :func:`kind_of_frame` named; None is pyarrow."""
    if kind == "pandas":
        return table.to_pandas()
    if kind in PACKAGES:
        return import_module(kind).from_arrow(table)
    return table


def _shorten(error: Exception) -> str:
    return "; ".join(map(str, error.args))[:200].rstrip(".")
