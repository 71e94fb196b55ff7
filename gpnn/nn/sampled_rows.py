"""SampledRows: rows of a propagation matrix, cut to their largest entries, for mini-batches of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import compress, pointers
from gpnn.data.features import csr_tensor
from gpnn.graph import Graph
from gpnn.nn.layers import SPARSE_BELOW

if TYPE_CHECKING:
    import scipy.sparse

ENTRIES = 32  # of a row that are kept
ENTRY_BYTES = 12  # a column and a weight
LEAST = 5e-4  # probability of being at a node below which a walk goes no further


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

        from gpnn.nn.sampled_kernel import keep_largest

        num_nodes = graph.num_nodes
        kept = min(entries, num_nodes)
        columns, weights = np.zeros((num_nodes, kept), np.int64), np.zeros((num_nodes, kept), np.float32)
        senders = compress(graph.dst.numpy(), graph.src.numpy(), num_nodes, with_edge=False)
        keep_largest(senders.ptr, senders.index, walk_weights(order, alpha), LEAST, columns, weights)
        if x.layout == torch.strided:
            return cls(columns, weights, csr_array(x.cpu().numpy()))
        parts = (x.values().cpu().numpy(), x.col_indices().cpu().numpy(), x.crow_indices().cpu().numpy())
        return cls(columns, weights, csr_array(parts, tuple(x.shape)))

    def draw(self, nodes: np.ndarray, rate: float, random: np.random.Generator, *, dense: bool = True) -> Tensor:
        """Features of some nodes `[n, F]`: each entry of their rows dropped with probability `rate`, the rest made one.

        A row that loses every entry is zero. Unless `dense`, the result is CSR, and equal columns of a row add up.
        """
        from gpnn.nn.sampled_kernel import count_features, join_features, sum_features

        weights = self.weights[nodes]
        weights *= random.random(weights.shape, np.float32) >= rate
        weights /= np.maximum(weights.sum(1, keepdims=True), 1e-12)
        shape, columns, x = (len(nodes), self.x.shape[1]), self.columns[nodes], self.x
        if dense:
            spread = np.zeros(shape, np.float32)
            sum_features(columns, weights, x.indptr, x.indices, x.data, spread)
            return torch.from_numpy(spread)
        ptr = pointers(count_features(columns, weights, x.indptr))
        index, value = np.empty(ptr[-1], np.int64), np.empty(ptr[-1], np.float32)
        join_features(columns, weights, x.indptr, x.indices, x.data, index, value)
        return csr_tensor(ptr, index, value, shape)

    @property
    def stays_sparse(self) -> bool:
        """Whether few of the columns of a row have an entry after features were summed along it, half of it dropped."""
        return self.x.nnz / max(1, self.x.shape[0]) * self.weights.shape[1] / 2 < SPARSE_BELOW * self.x.shape[1]


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
