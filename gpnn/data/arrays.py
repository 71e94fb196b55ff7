"""Arrays in scikit-learn's manner (X, y with −1 for unlabelled, adjacency) as PyG's `Data`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import from_scipy
from gpnn.data.labels import check_labels, check_names, check_trainable, is_missing, is_unlabelled, labelled_nodes
from gpnn.data.splits import split_fractions, strata
from gpnn.graph import Graph, as_graph

if TYPE_CHECKING:
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
            "Arrays must come with `adjacency`, the graph that joins their rows, or be nodes of a `graph`. Got neither."
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
    if hasattr(x, "tocsr"):
        return from_scipy(x.tocsr(), sparse=True)
    try:
        return torch.from_numpy(np.require(x, np.float32, ["C", "W"]))  # pandas gives arrays that may not be written
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
