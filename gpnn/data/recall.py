"""Recall at k over the gold pairs of an entity-extraction set (Bing et al., 2015; the paper, section 5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch_geometric.data import Data


def recall_at_k(data: Data, probabilities: Tensor, k: int | None = None) -> float:
    """The share of the gold (item, category) pairs that the k best-scored pairs find.

    Each test list votes its most likely category to its items; a pair's score is the largest probability of a
    vote for it. A gold pair is found when any item similar to its own is among the k best pairs with its
    category. Equal scores are taken in the order of item and category.

    Args:
        data: `diel` or `diel_like`.
        probabilities: of each class for each node, `[N, C]`; only the rows of test lists are read.
        k: how many pairs count as predictions; None takes `data.recall_k` (240,000 at DIEL's full size).

    Raises:
        ValueError: when the shapes do not fit, or `data` has no gold pairs.
    """
    if data.get("gold_class") is None:
        raise ValueError("`data` must have gold pairs, as diel and diel_like have. Got none.")
    if probabilities.shape != (data.num_nodes, data.num_classes):
        wanted = [data.num_nodes, data.num_classes]
        raise ValueError(f"`probabilities` must have shape {wanted}. Got {list(probabilities.shape)}.")
    k = data.recall_k if k is None else k
    if k < 1:
        raise ValueError(f"`k` must be at least 1. Got {k}.")
    predicted = np.zeros(data.num_nodes * data.num_classes, bool)
    predicted[_best_pairs(data, probabilities.detach().cpu(), k)] = True
    return float(_found(data, predicted).mean())


def _best_pairs(data: Data, probabilities: Tensor, k: int) -> np.ndarray:
    """The k best (item, category) pairs, as item · C + category, `[≤ k]`."""
    lists, items = data.edge_index[:, data.edge_index[0] < data.num_lists]
    voting = data.test_mask[lists]
    lists, items = lists[voting], items[voting]
    score, category = probabilities.max(dim=1)
    pair = (items * data.num_classes + category[lists]).numpy()
    vote = score[lists].numpy()
    order = np.lexsort((-vote, pair))  # by pair, its largest vote first
    pair, vote = pair[order], vote[order]
    first = np.ones(len(pair), bool)
    first[1:] = pair[1:] != pair[:-1]
    pair, vote = pair[first], vote[first]
    return pair[np.argsort(-vote, kind="stable")[:k]]


def _found(data: Data, predicted: np.ndarray) -> np.ndarray:
    """Whether each gold pair has a similar item among the predicted pairs, `[G]`."""
    gold = torch.repeat_interleave(torch.arange(len(data.gold_class)), data.similar_ptr.diff())
    hit = predicted[(data.similar_item * data.num_classes + data.gold_class[gold]).numpy()]
    return np.bincount(gold.numpy()[hit], minlength=len(data.gold_class)) > 0
