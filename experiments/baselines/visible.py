"""What a method may see: features, edges, training labels, and validation labels to select by."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.data import check_data
from gpnn.data.features import transform_data
from gpnn.graph import Graph

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data


class Labelled(NamedTuple):
    """Nodes `[M]` and their classes `[M]`, int64."""

    nodes: np.ndarray
    classes: np.ndarray


def visible_data(data: Data) -> Data:
    """A checked copy of `data` whose `y` is −1 outside the training and validation nodes; there is no test mask.

    Methods are given nothing else, so that none can learn from a test label.

    Raises:
        ValueError: when there are no labels or training nodes, when nodes have several labels, or what
            :func:`gpnn.data.check_data` finds.
    """
    checked = check_data(data)
    if checked.get("y") is None or checked.get("train_mask") is None:
        raise ValueError("`data` must have labels `y` and a `train_mask` to learn from. Got none.")
    if checked.y.dim() != 1:
        raise ValueError(f"`y` must hold one class per node, [N], for a baseline. Got shape {list(checked.y.shape)}.")
    visible = checked.train_mask.clone()
    if checked.get("val_mask") is not None:
        visible |= checked.val_mask
    checked.y = torch.where(visible, checked.y, -1)
    checked.test_mask = torch.zeros_like(visible)
    return checked


def labelled(data: Data, split: str) -> Labelled:
    """The nodes of "train" or "val" and their classes; none where the mask is missing."""
    mask = data.get(f"{split}_mask")
    nodes = torch.empty(0, dtype=torch.int64) if mask is None else mask.nonzero().flatten()
    return Labelled(nodes.numpy(), data.y[nodes].numpy())


def features(data: Data, method: str) -> Tensor:
    """The features `[N, F]`, dense or sparse CSR.

    Raises:
        ValueError: naming the method, when there are none.
    """
    x = data.get("x")
    if x is None:
        raise ValueError(f"The baseline {method!r} must be given features `x`. Got none.")
    return x


def feature_matrix(data: Data, method: str) -> scipy.sparse.csr_matrix:
    """The features as a scipy matrix, float32, `[N, F]`; what is sparse stays so."""
    from scipy.sparse import csr_matrix

    x = features(data, method)
    if x.layout == torch.strided:
        return csr_matrix(x.numpy().astype(np.float32))
    parts = (x.values().float().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return csr_matrix(parts, shape=tuple(x.shape))


def neighbours(data: Data) -> scipy.sparse.csr_matrix:
    """The symmetric adjacency, float32, `[N, N]`: |weights|, repeated edges once, no self-loops."""
    graph = Graph.from_data(data)
    other = graph.select_edges(graph.src != graph.dst)
    matrix = other.to_undirected().to_scipy().astype(np.float32)
    matrix.data = np.abs(matrix.data)
    matrix.sum_duplicates()  # edges of several types
    matrix.eliminate_zeros()
    return matrix


def class_shares(data: Data) -> np.ndarray:
    """The share of each class among the training nodes, `[C]`: the guess for a node that nothing is known of."""
    count = np.bincount(labelled(data, "train").classes, minlength=data.num_classes)
    return count / count.sum()


def simple(data: Data) -> Data:
    """A copy with features scaled to rows of sum one, and each edge both ways and once, as Kipf and Welling have it."""
    return transform_data(data, undirected=True, scale_features="rows")
