"""Datasets without files: scikit-learn's digits, and generated communities, R-MAT graphs, grids and chains.

Their options `num_features`, `feature_noise` and `label_rate` are those of :class:`Hints`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from gpnn.check import check_choice, check_range
from gpnn.data.splits import split_fractions, split_per_class, strata
from gpnn.data.synthetic import Hints, both_directions, equal_blocks, labelled_graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

QUADRANTS = (0.57, 0.19, 0.19, 0.05)  # Graph500's a, b, c, d
TARGETS = ("class", "number")
LINKS = ("undirected", "directed")


def digits(*, neighbors: int = 10, per_class: int = 10, num_val: int = 300, seed: int = 0) -> Data:
    """1,797 handwritten digits, each joined to its 10 nearest images; comes with scikit-learn, no download.

    An edge joins two images when either is among the other's nearest (Euclidean, ties to the smaller id).

    Args:
        neighbors: nearest images of each image.
        per_class: training images of each digit.
        num_val: validation images; the rest test.
        seed: the draw of the split.

    >>> data = digits()
    >>> [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)]
    [100, 300, 1397]
    """
    from sklearn.datasets import load_digits
    from torch_geometric.data import Data

    pixels, labels = load_digits(return_X_y=True)  # integers from 0 to 16
    check_range("neighbors", neighbors, 1, len(pixels) - 1)
    y = torch.from_numpy(labels.astype(np.int64))
    split = split_per_class(y, per_class=per_class, num_val=num_val, seed=seed)
    return Data(
        x=torch.from_numpy((pixels / 16).astype(np.float32)),
        edge_index=torch.from_numpy(_nearest(pixels, neighbors)),
        y=y,
        num_classes=10,
        **split._asdict(),
    )


def _nearest(points: np.ndarray, neighbors: int) -> np.ndarray:
    """The symmetric nearest-neighbour graph of integer points, sorted, `[2, E]`."""
    squares = (points**2).sum(axis=1)
    distance = squares[:, None] + squares[None, :] - 2 * points @ points.T  # exact: the pixels are integers
    rank = distance * len(points) + np.arange(len(points))  # distinct keys: ties go to the smaller id
    np.fill_diagonal(rank, np.inf)
    nearest = np.argpartition(rank, neighbors - 1, axis=1)[:, :neighbors]
    joined = np.zeros(distance.shape, bool)
    joined[np.arange(len(points))[:, None], nearest] = True
    return np.stack(np.nonzero(joined | joined.T))


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
        mixing: share of the edges that end at a node of any class instead of the same class.

    >>> planted(num_nodes=100, num_classes=4, num_features=40).num_nodes
    100
    """
    check_range("num_nodes", num_nodes, 1)
    check_range("degree", degree, 0)
    check_range("mixing", mixing, 0, 1)
    rng = np.random.default_rng([seed, 0])
    y = rng.permutation(equal_blocks(num_nodes, num_classes))
    members, size = np.argsort(y, kind="stable"), np.bincount(y, minlength=num_classes)
    start = np.cumsum(size) - size
    first = rng.integers(num_nodes, size=round(num_nodes * degree / 2))
    kind = y[first]
    within = members[start[kind] + (rng.random(len(first)) * size[kind]).astype(np.int64)]
    anywhere = rng.integers(num_nodes, size=len(first))
    second = np.where(rng.random(len(first)) < mixing, anywhere, within)
    edges, hints = both_directions(first, second, num_nodes), Hints(num_features, feature_noise, label_rate)
    return labelled_graph(edges, y, num_classes, hints, seed)


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
    was drawn in: its words show it, its degree hints at it, its neighbours' classes hardly do.

    Args:
        scale: the number of nodes is 2 to this power.
        edge_factor: draws for each node.
        num_classes: number of classes.
    """
    check_range("scale", scale, 1, 30)
    check_range("edge_factor", edge_factor, 1)
    rng = np.random.default_rng([seed, 0])
    num_nodes = 1 << scale
    order = rng.permutation(num_nodes)
    src, dst = _draw(scale, edge_factor * num_nodes, rng)
    y = np.empty(num_nodes, np.int64)
    y[order] = equal_blocks(num_nodes, num_classes)
    edges, hints = both_directions(order[src], order[dst], num_nodes), Hints(num_features, feature_noise, label_rate)
    return labelled_graph(edges, y, num_classes, hints, seed)


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

    >>> grid(rows=2, columns=2, num_classes=1).edge_index.tolist()
    [[0, 0, 1, 2, 1, 2, 3, 3], [1, 2, 3, 3, 0, 0, 1, 2]]
    """
    check_range("rows", rows, 1)
    check_range("columns", columns, 1)
    node = np.arange(rows * columns).reshape(rows, columns)
    first = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    second = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    edges, hints = both_directions(first, second, node.size), Hints(num_features, feature_noise, label_rate)
    return labelled_graph(edges, equal_blocks(node.size, num_classes), num_classes, hints, seed)


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
    """Generated chain: node i is joined to i + 1 in both directions (the paper's appendix); classes are node ranges.

    Args:
        num_nodes: length of the chain.
        num_edge_types: edge types, assigned in turn, the same in both directions; 1: no types.
        num_classes: number of classes, contiguous ranges of nodes.
    """
    check_range("num_nodes", num_nodes, 1)
    check_range("num_edge_types", num_edge_types, 1)
    node = np.arange(num_nodes)
    edges, hints = both_directions(node[:-1], node[1:], num_nodes), Hints(num_features, feature_noise, label_rate)
    data = labelled_graph(edges, equal_blocks(num_nodes, num_classes), num_classes, hints, seed)
    if num_edge_types > 1:
        data.edge_type = data.edge_index.amin(0) % num_edge_types
    return data


def people(
    *,
    num_nodes: int = 1500,
    num_classes: int = 4,
    num_columns: int = 12,
    degree: float = 6.0,
    homophily: float = 0.7,
    links: str = "undirected",
    column_signal: float = 1.0,
    target: str = "class",
    label_rate: float = 0.2,
    seed: int = 0,
) -> Data:
    """Generated table of people who know each other: a class or a number to predict from columns and acquaintances.

    A third of the columns tell of the group by themselves, a third only together with another, the rest nothing. A
    number follows from the group, two columns, the mean of a column of the acquaintances, and how many they are.

    Args:
        num_nodes: people N.
        num_classes: groups that people belong to.
        num_columns: columns of the table, at least 3.
        degree: acquaintances of a person, on average.
        homophily: share of the acquaintances in the own group; the others are in any other.
        links: "undirected", or "directed": links that are not within a group lead to the next one, and go one way.
        column_signal: how much the columns tell; 0 for nothing.
        target: "class" is the group, "number" a regression.
        label_rate: share of the people that train; a fifth validates, the rest tests.
        seed: the draw.

    >>> data = people(num_nodes=100)
    >>> list(data.x.shape), int(data.train_mask.sum())
    ([100, 12], 20)
    """
    from torch_geometric.data import Data

    check_choice("target", target, TARGETS)
    check_choice("links", links, LINKS)
    check_range("num_columns", num_columns, 3)
    check_range("homophily", homophily, 0, 1)
    check_range("degree", degree, 0)
    check_range("label_rate", label_rate, 0, 0.8)
    rng = np.random.default_rng([seed, 5])
    group = rng.permutation(equal_blocks(num_nodes, num_classes))
    x = _columns(group, num_classes, num_columns, column_signal, rng)
    src, dst = _links(group, num_classes, degree, homophily, links, rng)
    edges = both_directions(src, dst, num_nodes) if links == "undirected" else torch.from_numpy(np.stack([src, dst]))
    y = torch.from_numpy(group.astype(np.int64) if target == "class" else _number(x, group, edges.numpy(), rng))
    split = split_fractions(strata(y), train=label_rate, val=0.2, seed=seed)
    data = Data(x=torch.from_numpy(x.astype(np.float32)), edge_index=edges, y=y, **split._asdict())
    if target == "number":
        data.task = "regression"
    else:
        data.num_classes = num_classes
    return data


def _columns(group: np.ndarray, num_classes: int, width: int, signal: float, rng: np.random.Generator) -> np.ndarray:
    """Shifts by group, signs that two columns show together only, and noise, `[N, F]`."""
    x = rng.normal(size=(len(group), width))
    third = width // 3
    x[:, :third] += signal * rng.normal(size=(num_classes, third))[group]
    pairs = signal * rng.choice([-1.0, 1.0], size=(num_classes, third))[group]
    x[:, third : 2 * third] += pairs * np.sign(np.roll(x[:, :third], 1, axis=1))
    return x


def _links(
    group: np.ndarray, num_classes: int, degree: float, homophily: float, links: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sender and receiver of each link, `[E]`; loops are left out."""
    count = round(len(group) * degree / 2)
    members, size = np.argsort(group, kind="stable"), np.bincount(group, minlength=num_classes)
    start = np.cumsum(size) - size
    src = rng.integers(len(group), size=count)
    step = np.ones(count, np.int64) if links == "directed" else rng.integers(1, max(2, num_classes), size=count)
    wanted = np.where(rng.random(count) < homophily, group[src], (group[src] + step) % num_classes)
    dst = members[start[wanted] + (rng.random(count) * size[wanted]).astype(np.int64)]
    proper = src != dst
    return src[proper], dst[proper]


def _number(x: np.ndarray, group: np.ndarray, edges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A number of each person, float64 `[N]`."""
    degree = np.bincount(edges[1], minlength=len(x))
    around = np.bincount(edges[1], weights=x[edges[0], 0], minlength=len(x)) / np.maximum(degree, 1)
    return group + x[:, 0] * x[:, 1] + 2 * around + 0.2 * degree + 0.3 * rng.normal(size=len(x))
