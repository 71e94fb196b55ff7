"""Random: parts of equal size without regard to the edges, the baseline for the others."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpnn.graph import Graph
from gpnn.partition.partition import Partition


def random(graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None) -> Partition:
    """Assign the nodes to k parts in random order, so that sizes differ by one at most.

    On average it cuts a fraction (1 − 1/k) of the edges.

    Args:
        graph: the graph; only its number of nodes counts.
        seed: of the order.

    >>> random(Graph([0], [1], num_nodes=7), 3, seed=0).sizes.tolist()
    [3, 2, 2]
    """
    labels = np.arange(graph.num_nodes) % k
    np.random.default_rng(seed).shuffle(labels)
    return Partition(torch.from_numpy(labels), k)
