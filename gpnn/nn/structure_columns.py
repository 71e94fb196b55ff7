"""structure_columns: what the edges around a node look like, whoever its neighbours are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NUM_STRUCTURE = 7  # columns


def structure_columns(neighbours: csr_array) -> Tensor:
    """Columns of the structure around each node, `[N, 7]` float32: numbers of things as log(1 + number).

    Triangles, their share of the pairs of neighbours (the clustering coefficient), core number, size of the component,
    and mean, maximum and minimum of the neighbours' degrees.

    Args:
        neighbours: the adjacency, in both directions, without loops; weights and repeated edges do not count.

    >>> from scipy.sparse import csr_array
    >>> triangle = csr_array(np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]))
    >>> structure_columns(triangle)[:, 1].tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    from scipy.sparse.csgraph import connected_components

    from gpnn.csr_kernel import peel

    ones = neighbours.copy()
    ones.sum_duplicates()
    ones.data = np.ones(ones.nnz)
    degree = np.diff(ones.indptr)
    triangles = _triangles(ones, degree)
    pairs = degree * (degree - 1) / 2
    part = connected_components(ones, directed=False)[1]
    core = peel(ones.indptr.astype(np.int64), ones.indices.astype(np.int64))
    size = np.bincount(part)[part]
    counts = [np.log1p(triangles), triangles / np.maximum(1, pairs), np.log1p(core), np.log1p(size)]
    columns = np.stack([*counts, *_degrees_around(ones, np.log1p(degree))], 1)
    return torch.from_numpy(columns.astype(np.float32))


def _triangles(ones: csr_array, degree: np.ndarray) -> np.ndarray:
    """The triangles that each node is in, `[N]`.

    Edges lead to the neighbour of the higher degree, so that hubs have few; each triangle u → v → w, u → w is found
    once.
    """
    edges, rank = ones.tocoo(), np.empty(len(degree), np.int64)
    rank[np.argsort(degree, kind="stable")] = np.arange(len(degree))
    upward = rank[edges.row] < rank[edges.col]
    up = type(ones)((edges.data[upward], (edges.row[upward], edges.col[upward])), shape=ones.shape)
    ends = (up @ up).multiply(up)  # [u, w]
    middle = (up.T @ up).multiply(up)  # [v, w]
    return np.asarray(ends.sum(1)).ravel() + np.asarray(ends.sum(0)).ravel() + np.asarray(middle.sum(1)).ravel()


def _degrees_around(ones: csr_array, degree: np.ndarray) -> list[np.ndarray]:
    """Mean, maximum and minimum of the neighbours' values, 0 without any, `[N]` each."""
    some, around = np.diff(ones.indptr) > 0, degree[ones.indices]
    found = [np.zeros(len(degree)) for _ in range(3)]
    for values, ufunc in zip(found, (np.add, np.maximum, np.minimum)):
        values[some] = ufunc.reduceat(around, ones.indptr[:-1][some]) if some.any() else 0
    found[0] /= np.maximum(1, np.diff(ones.indptr))
    return found
