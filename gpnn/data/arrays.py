"""Arrays in scikit-learn's manner (X, y with −1 for unlabelled, adjacency) as PyG's `Data`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import from_scipy
from gpnn.data.labels import check_labels, check_names, check_trainable, is_unlabelled, labelled_nodes
from gpnn.data.splits import split_fractions
from gpnn.graph import Graph, as_graph

if TYPE_CHECKING:
    from torch_geometric.data import Data


def data_from_arrays(x: Any, y: Any, adjacency: Any) -> tuple[Data, np.ndarray | None]:
    """A `Data` whose labelled nodes train, and the classes that its labels number.

    Args:
        x: features, an array or a scipy sparse matrix `[N, F]`, or None.
        y: a label per node, −1, NaN, None or "" where it is unknown, `[N]`; zeros and ones for C labels per node,
            `[N, C]`; None where there are no labels.
        adjacency: what :func:`gpnn.graph.as_graph` takes, or a dense array `[N, N]`, with N nodes.

    Raises:
        ValueError: when there is no adjacency, the lengths differ, or the labels are not classes.
    """
    if adjacency is None:
        raise ValueError("Arrays must come with `adjacency`, the graph that joins their rows. Got none.")
    data = _graph(adjacency).to_data()
    if x is not None:
        data.x = _features(x)
        if data.x.shape[0] != data.num_nodes:
            raise ValueError(f"`X` must have one row for each of the {data.num_nodes} nodes. Got {data.x.shape[0]}.")
    if y is None:
        return data, None
    labels, classes = encode_labels(y)
    if len(labels) != data.num_nodes:
        raise ValueError(f"`y` must have one label for each of the {data.num_nodes} nodes. Got {len(labels)}.")
    check_trainable(labels, classes)
    data.y, data.train_mask, data.num_classes = labels, labelled_nodes(labels), len(classes)
    return data, classes


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

    The share is drawn class by class; of multi-label nodes, from all alike.
    """
    mask = data.get("train_mask")
    mask = labelled_nodes(data.y) if mask is None else mask
    if data.get("val_mask") is not None or not fraction:
        return _with(data, train_mask=mask)
    classes = data.y if data.y.dim() == 1 else torch.zeros_like(mask, dtype=torch.int64)
    split = split_fractions(torch.where(mask, classes, -1), train=1 - fraction, val=fraction, seed=seed)
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


def _features(x: Any) -> Tensor:
    if hasattr(x, "tocsr"):
        return from_scipy(x.tocsr(), sparse=True)
    return torch.from_numpy(np.require(x, np.float32, ["C", "W"]))  # pandas gives arrays that may not be written
