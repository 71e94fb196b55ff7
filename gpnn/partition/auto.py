"""Auto: the paper's partitioner for small graphs, ours for large ones."""

from __future__ import annotations

from torch import Tensor

from gpnn.graph import Graph
from gpnn.partition.flood_fill import flood_fill
from gpnn.partition.partition import Partition
from gpnn.partition.refined import refined

LARGE = 100_000  # nodes from which on a graph is large


def auto(graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None) -> Partition:
    """Flood fill below 100,000 nodes, where its cut costs little; `refined` from there on.

    Args:
        graph: the graph.
        k: number of subgraphs K.
        seed: where the random choices come from.
        train_nodes: labelled nodes, `[C]`, which seeds are drawn from.

    >>> auto(Graph([0, 1], [1, 0], num_nodes=2), 2).sizes.tolist()
    [1, 1]
    """
    method = refined if graph.num_nodes >= LARGE else flood_fill
    return method(graph, k, seed=seed, train_nodes=train_nodes)
