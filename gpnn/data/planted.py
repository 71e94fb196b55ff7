"""A planted partition: communities that the edges and the words of their members give away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpnn.data.synthetic import both_directions, check_at_least, check_share, equal_blocks, labelled_graph

if TYPE_CHECKING:
    from torch_geometric.data import Data


def planted(
    *,
    num_nodes: int = 20_000,
    num_classes: int = 10,
    degree: float = 10.0,
    mixing: float = 0.3,
    num_features: int = 500,
    feature_noise: float = 0.9,
    label_rate: float = 0.01,
    seed: int = 0,
) -> Data:
    """Generated communities of any size, with sparse words that hint at them.

    Args:
        num_nodes: nodes N, spread evenly over the classes.
        num_classes: communities, which are the classes.
        degree: neighbours of a node, on average and before repeated draws are dropped.
        mixing: share of the edges that end at a node of any class instead of one's own.
        num_features: words, an equal block of them for each class.
        feature_noise: share of a node's ten words that are drawn from all words.
        label_rate: share of each class that trains.
        seed: the draw.

    >>> planted(num_nodes=100, num_classes=4, num_features=40).num_nodes
    100
    """
    check_at_least("num_nodes", num_nodes, 1)
    check_at_least("degree", degree, 0)
    check_share("mixing", mixing)
    rng = np.random.default_rng([seed, 0])
    y = rng.permutation(equal_blocks(num_nodes, num_classes))
    members, size = np.argsort(y, kind="stable"), np.bincount(y, minlength=num_classes)
    start = np.cumsum(size) - size
    first = rng.integers(num_nodes, size=round(num_nodes * degree / 2))
    kind = y[first]
    within = members[start[kind] + (rng.random(len(first)) * size[kind]).astype(np.int64)]
    anywhere = rng.integers(num_nodes, size=len(first))
    second = np.where(rng.random(len(first)) < mixing, anywhere, within)
    return labelled_graph(
        both_directions(first, second, num_nodes),
        y,
        num_classes=num_classes,
        num_features=num_features,
        feature_noise=feature_noise,
        label_rate=label_rate,
        seed=seed,
    )
