"""Components: whole connected components packed into parts, so that no edge is cut."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpnn.graph import Graph
from gpnn.partition.partition import Partition


def components(graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None) -> Partition:
    """Pack the weakly connected components, largest first, each into the part that is smallest then.

    The largest part is at most 4/3 of the best possible (Graham 1969). Equal components go by their first
    node and equal parts by their number, so that nothing is random.

    Raises:
        ValueError: when there are fewer than k components: some part would be empty, and dividing a component
            is the work of the other methods.

    >>> pairs = Graph([0, 2, 4], [1, 3, 5], num_nodes=7)
    >>> components(pairs, 2).labels.tolist()
    [0, 0, 1, 1, 0, 0, 1]
    """
    from gpnn.partition.kernels import assign_components

    count = int(graph.components().max()) + 1
    if k > count:
        raise ValueError(f"`k` must be at most the {count} connected components. Got {k}.")
    rows = graph.out_edges(with_edge=False)
    labels = np.full(graph.num_nodes, -1, np.int32)
    assign_components(rows.ptr, rows.index, labels, np.empty(graph.num_nodes, np.int32), k)
    return Partition(torch.from_numpy(labels), k)
