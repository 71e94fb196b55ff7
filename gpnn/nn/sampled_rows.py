"""SampledRows: rows of a propagation matrix, cut to their largest entries, for mini-batches of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import slices
from gpnn.graph import Graph

if TYPE_CHECKING:
    import scipy.sparse

ENTRIES = 32  # of a row that are kept
LEAST = 1e-5  # entries of a power that are dropped while it is computed
CHUNK = 512  # rows at a time


@dataclass(frozen=True, eq=False)
class SampledRows:
    """The largest entries of each row of Π = Σₜ wₜ Pᵗ, P the mean over a node and its senders (GRAND+, 2022).

    Attributes:
        columns: nodes of the entries, `[N, k]`.
        weights: of the entries, 0 where a row has fewer, `[N, k]`.
        x: features, `[N, F]`.
    """

    columns: np.ndarray
    weights: np.ndarray
    x: scipy.sparse.csr_array

    @classmethod
    def of(cls, graph: Graph, x: Tensor, *, order: int, alpha: float, entries: int = ENTRIES) -> SampledRows:
        """The rows of every node of a graph.

        Args:
            graph: edges; every node also sends to itself.
            x: features, dense or sparse CSR, `[N, F]`.
            order: the longest walk T.
            alpha: wₜ is α(1 − α)ᵗ, and (1 − α)ᵀ for the longest, as the linear cell has it (APPNP); 0: all walks
                weigh alike.
            entries: kept of a row, k.
        """
        from scipy.sparse import csr_array

        mean, num_nodes = _mean_of_senders(graph), graph.num_nodes
        kept = min(entries, num_nodes)
        columns, weights = np.zeros((num_nodes, kept), np.int64), np.zeros((num_nodes, kept), np.float32)
        walks = walk_weights(order, alpha)
        for rows in slices(num_nodes, CHUNK):
            columns[rows], weights[rows] = _largest(_powers(mean, rows, walks), kept)
        dense = x.cpu() if x.layout == torch.strided else None
        if dense is not None:
            return cls(columns, weights, csr_array(dense.numpy()))
        parts = (x.values().cpu().numpy(), x.col_indices().cpu().numpy(), x.crow_indices().cpu().numpy())
        return cls(columns, weights, csr_array(parts, tuple(x.shape)))

    def draw(self, nodes: np.ndarray, rate: float, random: np.random.Generator) -> Tensor:
        """Features of some nodes `[n, F]`: each entry of their rows dropped with probability `rate`, the rest made one.

        A row that loses every entry is zero.
        """
        from scipy.sparse import csr_array

        weights = self.weights[nodes] * (random.random(self.weights[nodes].shape) >= rate)
        weights /= np.maximum(weights.sum(1, keepdims=True), 1e-12)
        ends = np.arange(0, weights.size + 1, weights.shape[1])
        rows = csr_array((weights.ravel(), self.columns[nodes].ravel(), ends), (len(nodes), len(self.columns)))
        return torch.from_numpy((rows @ self.x).toarray().astype(np.float32))


def walk_weights(order: int, alpha: float) -> np.ndarray:
    """The weight of walks of 0 to `order` steps, which sum to one.

    >>> walk_weights(2, 0.5).tolist(), walk_weights(1, 0.0).tolist()
    ([0.5, 0.25, 0.25], [0.5, 0.5])
    """
    if not alpha:
        return np.full(order + 1, 1 / (order + 1))
    weights = alpha * (1 - alpha) ** np.arange(order + 1.0)
    weights[-1] = (1 - alpha) ** order
    return weights


def _mean_of_senders(graph: Graph) -> scipy.sparse.csr_array:
    """The mean over each node and those that send to it, receivers by senders."""
    from scipy.sparse import csr_array, diags_array, eye_array

    ends = (graph.dst.numpy(), graph.src.numpy())
    shape = (graph.num_nodes, graph.num_nodes)
    matrix = (csr_array((np.ones(graph.num_edges, np.float32), ends), shape) + eye_array(graph.num_nodes)).tocsr()
    return (diags_array(1 / np.asarray(matrix.sum(1)).ravel()) @ matrix).tocsr().astype(np.float32)


def _powers(mean: scipy.sparse.csr_array, rows: slice, walks: np.ndarray) -> scipy.sparse.csr_array:
    """Some rows of Π; entries of a power that are very small are dropped."""
    from scipy.sparse import eye_array

    power = eye_array(mean.shape[0], format="csr", dtype=np.float32)[rows]
    total = float(walks[0]) * power
    for weight in walks[1:]:
        power = (power @ mean).tocsr()
        power.data[power.data < LEAST] = 0
        power.eliminate_zeros()
        total = total + float(weight) * power
    return total.tocsr()


def _largest(matrix: scipy.sparse.csr_array, kept: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of the largest entries of each row, `[n, k]` each, filled up with zeros."""
    columns = np.zeros((matrix.shape[0], kept), np.int64)
    weights = np.zeros((matrix.shape[0], kept), np.float32)
    for row in range(matrix.shape[0]):
        own = slice(matrix.indptr[row], matrix.indptr[row + 1])
        value, column = matrix.data[own], matrix.indices[own]
        if len(value) > kept:
            order = np.argpartition(-value, kept - 1)[:kept]
            value, column = value[order], column[order]
        columns[row, : len(column)], weights[row, : len(value)] = column, value
    return columns, weights
