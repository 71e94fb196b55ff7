"""Waves: outward from an origin by distance and back again, then from the farthest node found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gpnn.check import check_count, check_node
from gpnn.csr import compress
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.schedule.schedule import Phase, Schedule
from gpnn.schedule.sequential import level_phases


def waves(data: GraphLike, rounds: int = 3, origins: int | Sequence[int] = 0) -> Schedule:
    """One wave per round: outward from the origins, distance by distance, and back again.

    A round begins with a phase of the kind "origin", in which the origins update without a message, so that a cell
    per kind can tell them from other nodes. On the way out the nodes at distance d update from those at d - 1, on the
    way back from those at d + 1 and at d, as in the Flood and Echo Net (Mathys et al. 2024). Every edge carries one
    message per round, and in one round every origin learns from every node, every node from every origin. The first
    wave starts at `origins`, each later one in the farthest node of each component, ties by the lowest id, so that on
    a tree the second and third start at both ends of a longest path: three rounds suffice for the eccentricity of
    every node. A node that was an origin before gives way to the node that is farthest from all former origins.

    Args:
        data: the graph; distances ignore the direction of edges.
        rounds: number of waves T.
        origins: one node or several; a component without an origin starts at its lowest node.

    Raises:
        ValueError: when `rounds` is not positive or an origin is not a node.

    >>> from gpnn import Graph
    >>> chain = Graph([0, 1, 2], [1, 2, 3], num_nodes=4).to_undirected()
    >>> [[phase.nodes.tolist() for phase in phases] for phases in waves(chain, rounds=2, origins=1).rounds]
    [[[1], [0, 2], [3], [2], [1]], [[3], [2], [1], [0], [1], [2], [3]]]
    """
    from gpnn.schedule.kernels import distances

    graph = as_graph(data)
    check_count("rounds", rounds, at_least=1)
    component = graph.components().numpy()
    start = _first_origins(graph, component, np.atleast_1d(np.asarray(origins)).tolist())
    ptr, index = _neighbours(graph)
    nearest = np.full(graph.num_nodes, graph.num_nodes)  # distance to the nearest origin so far
    made = []
    for _ in range(rounds):
        distance = distances(ptr, index, start)
        made.append((_origin_phase(start), *_wave(graph, distance)))
        nearest = np.minimum(nearest, distance)
        start = _farthest(component, distance)
        start = np.where(nearest[start] > 0, start, _farthest(component, nearest))
    return Schedule(graph, tuple(made))


def _first_origins(graph: Graph, component: np.ndarray, origins: Sequence[int]) -> np.ndarray:
    """The given origins, and the lowest node of every component that has none of them."""
    given = np.array([check_node("origins", node, graph.num_nodes) for node in origins], np.int64)
    labels, lowest = np.unique(component, return_index=True)
    return np.unique(np.concatenate([given, lowest[~np.isin(labels, component[given])]]))


def _neighbours(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The neighbours of each node along and against its edges, as compressed rows."""
    src, dst = graph.src.numpy(), graph.dst.numpy()
    ptr, index, _ = compress(np.r_[src, dst], np.r_[dst, src], graph.num_nodes, with_edge=False)
    return ptr, index


def _farthest(component: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """The node of the largest distance in each component, ties by the lowest id."""
    order = np.lexsort((-distance, component))
    return order[np.unique(component[order], return_index=True)[1]]


def _origin_phase(start: np.ndarray) -> Phase:
    """The origins update, without a message."""
    return Phase(torch.empty(0, dtype=torch.int64), torch.from_numpy(np.unique(start)), kind="origin")


def _wave(graph: Graph, distance: np.ndarray) -> tuple[Phase, ...]:
    dst = graph.dst.numpy()
    outward = distance[graph.src.numpy()] < distance[dst]
    back = level_phases(np.flatnonzero(~outward), dst, distance, "back")
    return level_phases(np.flatnonzero(outward), dst, distance, "outward") + back[::-1]
