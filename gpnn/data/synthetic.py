"""Shared by generated datasets: edges in both directions, words drawn by class, a few labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_range
from gpnn.data.features import csr_tensor
from gpnn.data.splits import split_fractions

if TYPE_CHECKING:
    from torch_geometric.data import Data

VAL_SHARE = 0.1
_CHUNK = 1 << 18  # nodes whose words are drawn at a time, so that temporaries stay small


class Hints(NamedTuple):
    """What a generated graph shows of its classes.

    Attributes:
        num_features: number of words F, at least the number of classes.
        feature_noise: share of the words per node that are independent of the class.
        label_rate: share of each class that trains; a tenth validates, the rest tests.
    """

    num_features: int
    feature_noise: float
    label_rate: float


def labelled_graph(edge_index: Tensor, y: np.ndarray, num_classes: int, hints: Hints, seed: int) -> Data:
    """A graph with given classes: sparse words drawn by class, a share of the labels to train on.

    Args:
        edge_index: the edges, `[2, E]`.
        y: class of each node, `[N]`.
        num_classes: number of classes C.
        hints: words and labels.
        seed: the draw.
    """
    from torch_geometric.data import Data

    num_features, feature_noise, label_rate = hints
    if num_features < num_classes:
        raise ValueError(f"`num_features` must be at least the {num_classes} classes. Got {num_features}.")
    rng = np.random.default_rng([seed, 1])
    ptr, columns = draw_words(
        y, num_topics=num_classes, num_words=num_features, per_node=10, noise=feature_noise, rng=rng
    )
    labels = torch.from_numpy(y.astype(np.int64, copy=False))
    split = split_fractions(labels, train=label_rate, val=min(VAL_SHARE, 1 - label_rate), seed=seed)
    return Data(
        x=csr_tensor(ptr, columns, np.ones(len(columns), np.float32), (len(y), num_features)),
        edge_index=edge_index,
        y=labels,
        num_classes=num_classes,
        **split._asdict(),
    )


def draw_words(
    topic: np.ndarray,
    *,
    num_topics: int,
    num_words: int,
    per_node: int,
    noise: float,
    rng: np.random.Generator,
    skew: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct words of each node, as row pointers `[N + 1]` and columns `[nnz]`, rising within a row.

    Each topic owns an equal block of the words. A word is drawn from its topic's block, or with probability
    `noise` from all words; word w of n is drawn like floor(n · u^skew), so that a skew above 1 makes the first
    ones frequent.
    """
    check_range("noise", noise, 0, 1)
    block = num_words // num_topics
    ptr = np.zeros(len(topic) + 1, np.int64)
    columns = np.empty(len(topic) * per_node, np.int32)
    filled = 0
    for start in range(0, len(topic), _CHUNK):
        part = topic[start : start + _CHUNK, None]
        u = rng.random((len(part), per_node), np.float32) ** np.float32(skew)
        own = part * block + np.minimum((u * block).astype(np.int32), block - 1)
        drawn = np.where(
            rng.random(u.shape, np.float32) < noise,
            np.minimum((u * num_words).astype(np.int32), num_words - 1),
            own.astype(np.int32),
        )
        drawn.sort(axis=1)
        new = np.ones(drawn.shape, bool)
        new[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
        ptr[start + 1 : start + 1 + len(part)] = new.sum(axis=1)
        words = drawn[new]
        columns[filled : filled + len(words)] = words
        filled += len(words)
    return np.cumsum(ptr), columns[:filled]


def both_directions(first: np.ndarray, second: np.ndarray, num_nodes: int) -> Tensor:
    """The distinct pairs of different nodes, each as two edges, sorted pairs first, `[2, E]`."""
    low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second)
    keys = sorted_distinct((low * num_nodes + high)[low != high])
    return with_reverse(*np.divmod(keys, num_nodes))


def with_reverse(src: np.ndarray, dst: np.ndarray) -> Tensor:
    """The edges, then the reverse of each, `[2, 2E]`."""
    edge_index = np.empty((2, 2 * len(src)), np.int64)
    edge_index[0, : len(src)] = edge_index[1, len(src) :] = src
    edge_index[1, : len(src)] = edge_index[0, len(src) :] = dst
    return torch.from_numpy(edge_index)


def sorted_distinct(keys: np.ndarray) -> np.ndarray:
    """The distinct keys in rising order; by sorting, since numpy 2.4's hashing `unique` is far slower."""
    keys = np.sort(keys)
    new = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new]


def equal_blocks(num_nodes: int, num_classes: int) -> np.ndarray:
    """Consecutive nodes in `num_classes` equal blocks: the class of each node, `[N]`."""
    check_range("num_classes", num_classes, 1)
    if num_classes > num_nodes:
        raise ValueError(f"`num_classes` must be at most the {num_nodes} nodes. Got {num_classes}.")
    return np.arange(num_nodes) * num_classes // num_nodes
