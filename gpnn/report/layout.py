"""Where to draw the nodes of a graph of up to a few thousand nodes: forces, started from its subgraphs."""

from __future__ import annotations

import numpy as np

from gpnn.graph import Graph
from gpnn.partition import Partition, partition_graph

MAX_NODES = 3000
PAIRS = 5e8  # a few seconds of pushing


def force_layout(graph: Graph, partition: Partition | None = None, seed: int = 0) -> np.ndarray:
    """Positions [N, 2] in which neighbours lie close: Fruchterman and Reingold's forces.

    The subgraphs are laid out first, as the nodes of their quotient graph, and each node starts near its own: a
    start from random places needs many more steps to untangle.

    Args:
        graph: N nodes; directions, weights and parallel edges do not matter.
        partition: the subgraphs; None or a single one: some that are made here.
        seed: of the start.

    Raises:
        ValueError: when the graph has more than 3,000 nodes.

    >>> places = force_layout(Graph([0, 1, 3], [1, 2, 4], num_nodes=5))
    >>> bool(np.hypot(*(places[3] - places[4])) < np.hypot(*(places[0] - places[4])))
    True
    """
    from gpnn.report.layout_kernel import relax

    if graph.num_nodes > MAX_NODES:
        raise ValueError(f"A layout can be made for at most {MAX_NODES} nodes. Got {graph.num_nodes}.")
    src, dst = distinct_pairs(graph)
    places = _start(graph, partition, seed)
    steps = int(np.clip(PAIRS / max(1, graph.num_nodes) ** 2, 60, 300))
    relax(places, src, dst, steps, 0.03 * np.sqrt(graph.num_nodes))
    return places


def distinct_pairs(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of joined nodes, each once, without self-loops, two arrays `[P]`."""
    src, dst = graph.src.numpy(), graph.dst.numpy()
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    pairs = np.unique(low[low != high] * graph.num_nodes + high[low != high])
    return pairs // graph.num_nodes, pairs % graph.num_nodes


def quotient(graph: Graph, partition: Partition) -> np.ndarray:
    """How many edges run from each subgraph to each other, `[K, K]`."""
    labels, k = partition.labels.numpy(), partition.num_parts
    counts = np.zeros(k * k, np.int64)
    for first in range(0, graph.num_edges, 1 << 22):  # a piece at a time: the graph may be large
        piece = slice(first, first + (1 << 22))
        pairs = labels[graph.src[piece].numpy()] * k + labels[graph.dst[piece].numpy()]
        counts += np.bincount(pairs, minlength=k * k)
    return counts.reshape(k, k)


def _start(graph: Graph, partition: Partition | None, seed: int) -> np.ndarray:
    """Each node near the centre of its subgraph, the larger the subgraph the less near."""
    random = np.random.default_rng(seed)
    scatter = random.standard_normal((graph.num_nodes, 2))
    if graph.num_nodes < 20:
        return scatter
    if partition is None or partition.num_parts == 1:
        parts = min(graph.num_nodes, max(2, round(np.sqrt(graph.num_nodes) / 2)))
        partition = partition_graph(graph, parts, "flood_fill", seed)
    labels = partition.labels.numpy()
    counts = quotient(graph, partition)
    np.fill_diagonal(counts, 0)
    ends = counts.nonzero()
    centres = random.standard_normal((partition.num_parts, 2)) * np.sqrt(partition.num_parts)
    from gpnn.report.layout_kernel import relax

    relax(centres, *ends, 200, 0.1 * np.sqrt(partition.num_parts))
    spread = np.sqrt(graph.num_nodes / partition.num_parts)
    return centres[labels] * spread + scatter * 0.5 * np.sqrt(partition.sizes.numpy())[labels, None]
