"""R-MAT: a recursive random graph with the skewed degrees of real ones (Chakrabarti et al., 2004)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpnn.data.synthetic import both_directions, equal_blocks, labelled_graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

QUADRANTS = (0.57, 0.19, 0.19, 0.05)  # Graph500's a, b, c, d


def rmat(
    *,
    scale: int = 14,
    edge_factor: int = 8,
    num_classes: int = 4,
    num_features: int = 200,
    feature_noise: float = 0.7,
    label_rate: float = 0.01,
    seed: int = 0,
) -> Data:
    """Generated graph with a few hubs and many small nodes, as the web has.

    An edge is drawn bit by bit: each bit of (sender, receiver) falls into a quadrant with the probabilities of
    Graph500. Ids are shuffled; loops and repeated edges are dropped. A node's class is the block of ids that it
    was drawn in: its words tell it, its degree hints at it, its neighbours' classes hardly do.

    Args:
        scale: the number of nodes is 2 to this power.
        edge_factor: draws for each node.
        num_classes: number of classes.
        num_features: words, an equal block of them for each class.
        feature_noise: share of a node's ten words that are drawn from all words.
        label_rate: share of each class that trains.
        seed: the draw.
    """
    if not 1 <= scale <= 30:
        raise ValueError(f"`scale` must be from 1 to 30. Got {scale}.")
    if edge_factor < 1:
        raise ValueError(f"`edge_factor` must be at least 1. Got {edge_factor}.")
    rng = np.random.default_rng([seed, 0])
    num_nodes = 1 << scale
    order = rng.permutation(num_nodes)
    src, dst = _draw(scale, edge_factor * num_nodes, rng)
    y = np.empty(num_nodes, np.int64)
    y[order] = equal_blocks(num_nodes, num_classes)
    return labelled_graph(
        both_directions(order[src], order[dst], num_nodes),
        y,
        num_classes=num_classes,
        num_features=num_features,
        feature_noise=feature_noise,
        label_rate=label_rate,
        seed=seed,
    )


def _draw(scale: int, num_edges: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    a, ab, abc = np.cumsum(QUADRANTS[:3], dtype=np.float32)
    src, dst = np.zeros(num_edges, np.int32), np.zeros(num_edges, np.int32)
    for _ in range(scale):
        u = rng.random(num_edges, np.float32)
        lower = u >= ab
        right = ((u >= a) & ~lower) | (u >= abc)
        src = 2 * src + lower
        dst = 2 * dst + right
    return src, dst
