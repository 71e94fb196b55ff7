"""Sequential propagation: a node sends once it has received from all its parents."""

from __future__ import annotations

import numpy as np
import torch

from gpnn.check import check_count, check_node
from gpnn.csr import compress
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.schedule.schedule import Phase, Schedule


def sequential(data: GraphLike, rounds: int = 5, root: int = 0) -> Schedule:
    """Two passes per round, along and against a breadth-first order, level by level (Sect. 4.5, A.4).

    The edges that follow the visiting order form one acyclic graph, those that violate it another. In each,
    one phase per longest-path level sends over the edges into that level, so that every node updates once,
    after all its parents. On a chain this is a bidirectional recurrent network. Every edge carries one
    message per round; a self-loop is in its node's phase of the first pass. A node without a message does
    not update.

    Args:
        data: the graph. The search follows edges from sender to receiver, neighbours in the order of their
            ids, and starts again at the lowest unvisited node.
        rounds: number of times both passes are done, T.
        root: where the search starts.

    Raises:
        ValueError: when `rounds` is not positive or `root` is not a node.

    >>> from gpnn import Graph
    >>> chain = Graph([0, 1, 1, 2], [1, 0, 2, 1], num_nodes=3)
    >>> [phase.nodes.tolist() for phase in sequential(chain, rounds=1).rounds[0]]
    [[1], [2], [1], [0]]
    """
    from gpnn.schedule.kernels import breadth_first, longest_path_levels

    graph = as_graph(data)
    check_count("rounds", rounds, at_least=1)
    check_node("root", root, graph.num_nodes)
    src, dst = graph.src.numpy(), graph.dst.numpy()
    ptr, neighbours = _sorted_neighbours(graph)
    visit, _ = breadth_first(ptr, neighbours, root)
    rank = np.empty_like(visit)
    rank[visit] = np.arange(len(visit))
    follows = rank[src] <= rank[dst]  # self-loops are in the first pass
    forward = longest_path_levels(ptr, neighbours, visit)
    backward = longest_path_levels(ptr, neighbours, np.ascontiguousarray(visit[::-1]))  # compiled once
    passes = level_phases(np.flatnonzero(follows), dst, forward, "level")
    passes += level_phases(np.flatnonzero(~follows), dst, backward, "level")
    return Schedule(graph, (passes,) * rounds)


def _sorted_neighbours(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Out-neighbours as compressed rows, rising within each: two counting sorts, by receiver and by sender."""
    ptr, senders, _ = graph.in_edges(with_edge=False)
    receivers = np.repeat(np.arange(graph.num_nodes), np.diff(ptr))
    ptr, neighbours, _ = compress(senders, receivers, graph.num_nodes, with_edge=False)
    return ptr, neighbours


def level_phases(edges: np.ndarray, dst: np.ndarray, level: np.ndarray, kind: str) -> tuple[Phase, ...]:
    """One phase per level: the edges into that level's nodes, and the nodes that receive one of them.

    Args:
        edges: ids of the edges to send over, `[e]`.
        dst: receiver of every edge of the graph, `[E]`.
        level: level of every node, `[N]`.
        kind: what the phases are for.
    """
    if not len(edges):
        return ()
    receives = np.zeros(len(level), np.bool_)
    receives[dst[edges]] = True
    nodes = np.flatnonzero(receives)
    num_levels = int(level[nodes].max()) + 1
    edge_ptr, by_level, _ = compress(level[dst[edges]], edges, num_levels, with_edge=False)
    node_ptr, receivers, _ = compress(level[nodes], nodes, num_levels, with_edge=False)
    sorted_edges, sorted_nodes = (torch.from_numpy(ids.astype(np.int64)) for ids in (by_level, receivers))
    return tuple(
        Phase(
            sorted_edges[edge_ptr[k] : edge_ptr[k + 1]],
            sorted_nodes[node_ptr[k] : node_ptr[k + 1]],
            kind=kind,
        )
        for k in range(num_levels)
        if node_ptr[k] < node_ptr[k + 1]
    )
