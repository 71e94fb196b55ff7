"""Seeds: the nodes that the subgraphs grow from (lines 3 to 5 of Algorithm 2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

_CHUNK = 1 << 16  # candidates whose keys are held at one time


def training_nodes(graph: Any) -> Tensor | None:
    """The labelled nodes of `graph`, or None: its `train_mask`, else where `y` is not -1.

    The masks of a `HeteroData` are concatenated in the order of its node types; a node type without a mask has
    no training nodes.
    """
    if hasattr(graph, "node_types"):
        masks = [store.get("train_mask", torch.zeros(store.num_nodes, dtype=torch.bool)) for store in graph.node_stores]
        mask: Tensor | None = torch.cat(masks)
    else:
        mask = getattr(graph, "train_mask", None)
        labels = getattr(graph, "y", None)
        if mask is None and labels is not None and labels.dim() == 1 and not labels.is_floating_point():
            mask = labels >= 0 if labels.numel() == graph.num_nodes else None
    return None if mask is None or not bool(mask.any()) else as_nodes(mask)


def as_nodes(mask: Tensor) -> Tensor:
    """The ids of the nodes that a bool mask selects."""
    if mask.dtype != torch.bool or mask.dim() != 1:
        raise ValueError(f"`train_mask` must be a bool mask [N]. Got {mask.dtype}, {list(mask.shape)}.")
    return mask.detach().cpu().nonzero().flatten()


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
    for start in range(0, count, _CHUNK):
        stop = min(start + _CHUNK, count)
        chunk = np.arange(start, stop) if nodes is None else nodes[start:stop]
        node, time = (
            np.append(best_node, chunk),
            np.hstack([best_time, _waiting_times(ptr, chunk, generator)]),
        )
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
