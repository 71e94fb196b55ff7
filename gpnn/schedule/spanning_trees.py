"""Propagation over spanning trees: a new minimum spanning forest each round, from its roots to its leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpnn.check import check_count, check_node
from gpnn.csr import compress
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.schedule.schedule import Phase, Schedule
from gpnn.schedule.sequential import level_phases


def spanning_trees(data: GraphLike, rounds: int = 5, seed: int = 0, root: int = 0) -> Schedule:
    """One minimum spanning forest per round, from parent to child, depth by depth (Sect. 4.5).

    Every joined pair of nodes has a random weight in [0, 1); Kruskal's algorithm finds the forest, and the
    weights of its pairs grow by 1, so that later rounds prefer unused pairs. A connected graph's round
    has N − 1 messages. Where several parallel edges lead from parent to child, one of them is drawn anew each
    round. Self-loops are never sent; roots do not update.

    Args:
        data: the graph; each edge needs a reverse.
        rounds: number of forests T.
        seed: of the weights and of the choice among parallel edges.
        root: root of its tree; the other components' roots are their lowest nodes.

    Raises:
        ValueError: when an edge has no reverse, `rounds` is not positive, or `root` is not a node.

    >>> from gpnn import Graph
    >>> square = Graph([0, 1, 2, 3], [1, 2, 3, 0], num_nodes=4).to_undirected()
    >>> spanning_trees(square, rounds=2)  # doctest: +ELLIPSIS
    Schedule(rounds=2, phases=..., messages=6, updates=6)
    """
    graph = as_graph(data)
    check_count("rounds", rounds, at_least=1)
    check_node("root", root, graph.num_nodes)
    random = np.random.default_rng(seed)
    arcs = _arcs(graph)
    low, high = _pairs(graph, arcs)
    weight = random.random(len(low))
    forests = tuple(_forest(graph, arcs, (low, high), weight, root, random) for _ in range(rounds))
    return Schedule(graph, forests)


class Arcs(NamedTuple):
    """The edges other than self-loops, sorted by (sender, receiver)."""

    edge: np.ndarray  # [A] id in the graph
    key: np.ndarray  # [A] sender * N + receiver, rising


def _arcs(graph: Graph) -> Arcs:
    src, dst = graph.src.numpy(), graph.dst.numpy()
    proper = np.flatnonzero(src != dst)
    key = src[proper] * graph.num_nodes + dst[proper]
    order = np.argsort(key, kind="stable")
    return Arcs(proper[order], key[order])


def _pairs(graph: Graph, arcs: Arcs) -> tuple[np.ndarray, np.ndarray]:
    """The joined pairs low < high, `[P]` each, after a check that each is joined in both directions."""
    distinct = np.unique(arcs.key)
    sender, receiver = np.divmod(distinct, graph.num_nodes)
    reverse = receiver * graph.num_nodes + sender
    at = np.searchsorted(distinct, reverse).clip(max=max(len(distinct) - 1, 0))
    lone = np.flatnonzero(distinct[at] != reverse)
    if len(lone):
        raise ValueError(
            "Spanning trees need the reverse of every edge. "
            f"Got {sender[lone[0]]} → {receiver[lone[0]]} without it: data.undirected=true adds it, and in Python "
            "`graph.to_undirected()`."
        )
    rising = sender < receiver
    return sender[rising], receiver[rising]


def _forest(
    graph: Graph,
    arcs: Arcs,
    pairs: tuple[np.ndarray, np.ndarray],
    weight: np.ndarray,
    root: int,
    random: np.random.Generator,
) -> tuple[Phase, ...]:
    """The phases of the forest that is minimal under `weight` [P], which then grows by 1 on it."""
    from gpnn.schedule.kernels import breadth_first, depths, spanning_forest

    low, high = pairs
    used = spanning_forest(np.argsort(weight, kind="stable"), low, high, graph.num_nodes)
    weight[used] += 1
    ends = np.concatenate([low[used], high[used]]), np.concatenate([high[used], low[used]])
    ptr, neighbours, _ = compress(*ends, graph.num_nodes, with_edge=False)
    visit, parent = breadth_first(ptr, neighbours, root)
    child = np.flatnonzero(parent >= 0)
    edges = _draw(arcs, parent[child] * graph.num_nodes + child, random)
    return level_phases(edges, graph.dst.numpy(), depths(visit, parent), "depth")


def _draw(arcs: Arcs, key: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One edge for each key, drawn evenly among the parallel ones, `[len(key)]`."""
    first, end = np.searchsorted(arcs.key, key, "left"), np.searchsorted(arcs.key, key, "right")
    return arcs.edge[random.integers(first, end)] if len(key) else key
