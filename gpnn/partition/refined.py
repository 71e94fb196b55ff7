"""Refined: parts of equal weight and small cut, by multilevel refinement of grown seeds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice, check_count, check_range
from gpnn.graph import Graph
from gpnn.partition.partition import Partition

BALANCE = ("nodes", "edges")


def refined(
    graph: Graph,
    k: int,
    *,
    seed: int = 0,
    train_nodes: Tensor | None = None,
    balance: str = "nodes",
    balance_labels: bool = False,
    imbalance: float = 0.05,
    cycles: int = 0,
) -> Partition:
    """Divide the graph into k parts of nearly equal weight that cut few edges, in time linear in its edges.

    Size-constrained label propagation clusters the nodes, the clusters become the nodes of a coarser graph,
    and so on; the coarsest graph is divided by growing parts from seeds (labelled, of large degree, as in
    Algorithm 2 of the paper); on the way back each level is balanced and refined. Direction, edge types and
    edge weights play no role: what is counted is messages between parts. Nodes without neighbours are
    assigned last, so that the others are balanced among themselves.

    Args:
        train_nodes: labelled nodes, `[C]`, which seeds are drawn from where there are any.
        balance: what is balanced: "nodes", or "edges" (a node weighs its degree).
        balance_labels: also balance the training nodes.
        imbalance: how far above the mean a part may lie (one node more than the mean is always allowed; a
            node that weighs more than a part cannot be divided).
        cycles: how often the parts are coarsened and refined once more (V-cycles), each about as long as the first
            time, for a cut that is a few percent smaller.

    Raises:
        ValueError: for an unknown balance, a negative imbalance or number of cycles, or no labels to balance.

    >>> two = Graph([0, 1, 2, 0, 3, 4, 5, 3, 2], [1, 2, 0, 2, 4, 5, 3, 5, 3], num_nodes=6)
    >>> refined(two, 2).labels.bincount().tolist()
    [3, 3]
    """
    _check(balance, balance_labels, imbalance, train_nodes)
    check_count("cycles", cycles, at_least=0)
    from gpnn.partition.kernels import stream
    from gpnn.partition.multilevel_hierarchy import coarsen, partition_levels, refine_again
    from gpnn.partition.multilevel_level import Level
    from gpnn.partition.multilevel_refine import assign_isolated, fill_empty
    from gpnn.partition.neighbours import neighbours

    ptr, index = neighbours(graph)
    state = stream(seed)
    degree = np.diff(ptr).astype(np.int32)
    weight = _weights(degree, balance, train_nodes if balance_labels else None)
    cap = _caps(weight, k, imbalance)
    level = Level(ptr, index, np.empty(0, np.int32), weight)
    levels, names = coarsen(level, k, state)
    prefer = _preference(degree, names, train_nodes, len(levels[-1].node_weight))
    labels = partition_levels(levels, names, cap, prefer, state)
    for _ in range(cycles):
        labels = refine_again(level, labels, cap, state)
    assign_isolated(labels, weight, k)
    fill_empty(labels, k)
    return Partition(torch.from_numpy(labels), k)


def _check(balance: str, balance_labels: bool, imbalance: float, train_nodes: Tensor | None) -> None:
    check_choice("balance", balance, BALANCE)
    check_range("imbalance", imbalance, 0)
    if balance_labels and train_nodes is None:
        raise ValueError("`balance_labels` needs training nodes (`train_mask`). Got none.")


def _weights(degree: np.ndarray, balance: str, train_nodes: Tensor | None) -> np.ndarray:
    """Weight of each node for each constraint, `[N, C]`: of nodes (0 when isolated) or edges; of labels."""
    weight = np.zeros((len(degree), 1 if train_nodes is None else 2), np.int32)
    weight[:, 0] = degree if balance == "edges" else degree > 0
    if train_nodes is not None:
        weight[train_nodes.numpy(), 1] = 1
        if balance == "nodes":  # labels place an isolated node too, so it is no longer free
            weight[train_nodes.numpy(), 0] = 1
    return weight


def _caps(weight: np.ndarray, k: int, imbalance: float) -> np.ndarray:
    """The most that each part may weigh, `[K, C]`."""
    mean = weight.sum(0, dtype=np.int64) / k
    cap = np.maximum(np.ceil(mean), np.floor(mean * (1 + imbalance))).astype(np.int64)
    return np.repeat(cap[None], k, 0)


def _preference(
    degree: np.ndarray, names: list[np.ndarray], train_nodes: Tensor | None, num_coarsest: int
) -> np.ndarray:
    """Weight of each coarsest node in the draw of seeds, `[n]`: the degrees of its labelled nodes, else of all."""
    at = np.arange(len(degree)) if train_nodes is None else train_nodes.numpy()
    weight = degree[at]
    for name in names:
        at = name[at]
    return np.bincount(at, weight, num_coarsest).astype(np.int64)
