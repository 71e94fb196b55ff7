"""Flood fill: the paper's modified multi-seed flood fill (Algorithm 2)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.csr import slices
from gpnn.graph import Graph
from gpnn.partition.partition import Partition

LEFTOVER = ("smallest", "spread")
_CHUNK = 1 << 16  # candidates whose keys are held at one time


def flood_fill(
    graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None, leftover: str = "smallest"
) -> Partition:
    """Grow k subgraphs from seeds, one node per iteration, until none grows (Algorithm 2 of the paper).

    Seeds are drawn from the training nodes in proportion to out-degree. Each subgraph has a
    first-in-first-out queue; each iteration visits the subgraphs in a new random order, and each removes one
    node from its queue and claims that node's unclaimed children. Only subgraphs whose queue is not empty are
    permuted: an empty queue stays empty, and a random order of all subgraphs is a random order of those.

    Args:
        seed: of the seeds and the orders.
        train_nodes: ids of the candidates, `[C]`, or None: all nodes.
        leftover: what becomes of nodes that no seed reaches: "smallest" puts all of them into the subgraph
            that was smallest when growth stopped (the paper's rule); "spread" assigns their components,
            largest first, each to the smallest subgraph at that moment.

    Raises:
        ValueError: when k is above the number of candidates.

    >>> chain = Graph([0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2], num_nodes=4)
    >>> flood_fill(chain, 2, seed=3).sizes.sum().item()
    4
    """
    check_choice("leftover", leftover, LEFTOVER)
    from gpnn.partition.kernels import assign_components, assign_to_smallest, grow, stream

    generator = np.random.default_rng(seed)
    rows = graph.out_edges(with_edge=False)
    nodes = None if train_nodes is None else train_nodes.numpy()
    seeds = draw_seeds(rows.ptr, k, generator, nodes)
    labels, queue = grow(rows.ptr, rows.index, seeds, stream(seed))
    if leftover == "spread":
        assign_components(rows.ptr, rows.index, labels, queue, k)
    else:
        assign_to_smallest(labels, k)
    del rows, queue  # before the labels widen
    return Partition(torch.from_numpy(labels), k)


def draw_seeds(ptr: np.ndarray, k: int, generator: np.random.Generator, nodes: np.ndarray | None) -> np.ndarray:
    """Draw k distinct nodes in proportion to out-degree, without replacement, `[K]`.

    Node u draws an exponential time of rate d_u; the k smallest, in that order, are distributed as
    k successive draws with p_u = d_u / Σ d_v. Nodes of degree zero come after all others, in random order.

    Args:
        ptr: row pointers of the out-edges, `[N + 1]`.
        k: the number of seeds.
        generator: the source of the waiting times.
        nodes: the candidates, `[C]`, or None: all nodes.

    Raises:
        ValueError: when there are fewer than k candidates.
    """
    count = len(ptr) - 1 if nodes is None else len(nodes)
    if k > count:
        kind = "nodes" if nodes is None else "labelled nodes"
        raise ValueError(f"`k` must be at most the {count} {kind}. Got {k}.")
    best_node, best_time = np.empty(0, np.int64), np.empty((2, 0))
    for some in slices(count, _CHUNK):
        chunk = np.arange(some.start, some.stop) if nodes is None else nodes[some]
        node, time = np.append(best_node, chunk), np.hstack([best_time, _waiting_times(ptr, chunk, generator)])
        first = np.lexsort(time)[:k] if len(chunk) < 4 * k else _smallest(time, k)
        best_node, best_time = node[first], time[:, first]
    return best_node


def _waiting_times(ptr: np.ndarray, nodes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Sort keys `[2, C]`, the last the more important: (random time / degree, is the degree zero)."""
    degree = ptr[nodes + 1] - ptr[nodes]
    return np.stack([generator.standard_exponential(len(nodes)) / np.maximum(degree, 1), degree == 0])


def _smallest(time: np.ndarray, k: int) -> np.ndarray:
    """Positions of the k smallest keys in order, without sorting them all."""
    key = np.where(time[1] > 0, time[0] + 1e300, time[0])
    bound = np.partition(key, k - 1)[k - 1]
    few = np.flatnonzero(key <= bound)
    return few[np.lexsort(time[:, few])][:k]
