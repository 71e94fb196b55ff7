"""Grids and chains: graphs whose distances are known, for schedules and partitions to be tried on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpnn.data.synthetic import both_directions, check_at_least, equal_blocks, labelled_graph

if TYPE_CHECKING:
    from torch_geometric.data import Data


def grid(
    *,
    rows: int = 100,
    columns: int = 100,
    num_classes: int = 4,
    num_features: int = 200,
    feature_noise: float = 0.9,
    label_rate: float = 0.01,
    seed: int = 0,
) -> Data:
    """Generated grid: node (i, j) is i · columns + j and has up to four neighbours; classes are bands of rows.

    Args:
        rows: height of the grid.
        columns: width of the grid.
        num_classes: number of classes, bands of consecutive nodes.
        num_features: words, an equal block of them for each class.
        feature_noise: share of a node's ten words that are drawn from all words.
        label_rate: share of each class that trains.
        seed: the draw.

    >>> grid(rows=2, columns=2, num_classes=1).edge_index.tolist()
    [[0, 0, 1, 2, 1, 2, 3, 3], [1, 2, 3, 3, 0, 0, 1, 2]]
    """
    check_at_least("rows", rows, 1)
    check_at_least("columns", columns, 1)
    node = np.arange(rows * columns).reshape(rows, columns)
    first = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    second = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    return labelled_graph(
        both_directions(first, second, node.size),
        equal_blocks(node.size, num_classes),
        num_classes=num_classes,
        num_features=num_features,
        feature_noise=feature_noise,
        label_rate=label_rate,
        seed=seed,
    )


def chain(
    *,
    num_nodes: int = 1000,
    num_edge_types: int = 1,
    num_classes: int = 2,
    num_features: int = 200,
    feature_noise: float = 0.7,
    label_rate: float = 0.01,
    seed: int = 0,
) -> Data:
    """Generated chain: node i is joined to i + 1 in both directions (the paper's appendix); classes are stretches.

    Args:
        num_nodes: length of the chain.
        num_edge_types: types that the links take in turn, the same in both directions; 1: no types.
        num_classes: number of classes, stretches of consecutive nodes.
        num_features: words, an equal block of them for each class.
        feature_noise: share of a node's ten words that are drawn from all words.
        label_rate: share of each class that trains.
        seed: the draw.
    """
    check_at_least("num_nodes", num_nodes, 1)
    check_at_least("num_edge_types", num_edge_types, 1)
    node = np.arange(num_nodes)
    data = labelled_graph(
        both_directions(node[:-1], node[1:], num_nodes),
        equal_blocks(num_nodes, num_classes),
        num_classes=num_classes,
        num_features=num_features,
        feature_noise=feature_noise,
        label_rate=label_rate,
        seed=seed,
    )
    if num_edge_types > 1:
        data.edge_type = data.edge_index.amin(0) % num_edge_types
    return data
