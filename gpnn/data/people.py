"""people: a generated table of people who know each other; columns and acquaintances tell as much as is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from gpnn.check import check_choice, check_range
from gpnn.data.splits import split_fractions, strata
from gpnn.data.synthetic import both_directions, equal_blocks

if TYPE_CHECKING:
    from torch_geometric.data import Data

TARGETS = ("class", "number")
LINKS = ("undirected", "directed")


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
