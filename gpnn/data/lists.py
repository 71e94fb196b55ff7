"""Lists and the items they name: DIEL's bipartite graph, distant labels, gold standard and recall at k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_range
from gpnn.csr import pointers
from gpnn.data.features import csr_tensor
from gpnn.data.splits import split_nodes
from gpnn.data.synthetic import with_reverse

if TYPE_CHECKING:
    from torch_geometric.data import Data


CATEGORIES = ("disease", "drug", "ingredient", "symptom")


@dataclass(frozen=True, eq=False)
class Lists:
    """The content of an entity-extraction set, lists and items numbered from 0 each.

    Attributes:
        has_item: (list, item) of each fact, `[2, E]`.
        num_lists: number of lists L.
        num_items: number of items I.
        word_ptr, words: the words of each list, distinct and rising, `[L + 1]` and `[nnz]`.
        num_words: number of words F.
        seeds: for each category its seed items.
        gold_class: category of each gold pair, `[G]`.
        similar_ptr, similar: the items that are similar to each gold pair's item, `[G + 1]` and `[S]`.
        recall_k: how many (item, category) pairs count as predictions.
    """

    has_item: np.ndarray
    num_lists: int
    num_items: int
    word_ptr: np.ndarray
    words: np.ndarray
    num_words: int
    seeds: Sequence[np.ndarray]
    gold_class: np.ndarray
    similar_ptr: np.ndarray
    similar: np.ndarray
    recall_k: int

    def to_data(self, seed: int = 0) -> Data:
        """The graph, with lists as nodes 0…L−1 and items after them; a fifth of the seeded lists validates.

        Attributes beyond the usual ones are those that :func:`gpnn.data.recall_at_k` reads: `num_lists`,
        `gold_class` `[G]`, `similar_ptr` `[G + 1]`, `similar_item` `[S]` (nodes) and `recall_k`.
        """
        from torch_geometric.data import Data

        y = self._list_labels()
        train, val = _fifth(np.flatnonzero(y >= 0), seed)
        split = split_nodes(self.num_nodes, train, val, np.flatnonzero(y[: self.num_lists] < 0))
        return Data(
            x=self._features(),
            edge_index=self._edges(),
            y=torch.from_numpy(y),
            **split._asdict(),
            num_classes=len(self.seeds),
            num_lists=self.num_lists,
            gold_class=torch.from_numpy(self.gold_class),
            similar_ptr=torch.from_numpy(self.similar_ptr),
            similar_item=torch.from_numpy(self.similar + self.num_lists),
            recall_k=self.recall_k,
        )

    @property
    def num_nodes(self) -> int:
        return self.num_lists + self.num_items

    def _list_labels(self) -> np.ndarray:
        """The first category of which a list has a seed item; -1 for other lists and for items, `[N]`."""
        y = np.full(self.num_nodes, -1, np.int64)
        lists, items = self.has_item
        for category in reversed(range(len(self.seeds))):
            seeded = np.zeros(self.num_items, bool)
            seeded[self.seeds[category]] = True
            y[lists[seeded[items]]] = category
        return y

    def _features(self) -> Tensor:
        ptr = np.concatenate([self.word_ptr, np.full(self.num_items, self.word_ptr[-1])])  # items have no words
        values = np.ones(len(self.words), np.float32)
        return csr_tensor(ptr, self.words, values, (self.num_nodes, self.num_words))

    def _edges(self) -> Tensor:
        """Each fact from list to item, then each from item to list, `[2, 2E]`."""
        lists, items = self.has_item
        return with_reverse(lists, items + self.num_lists)


def _fifth(nodes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The nodes that train, and the fifth of them, drawn, that validates instead."""
    shuffled = np.random.default_rng(seed).permutation(nodes)
    return shuffled[len(nodes) // 5 :], shuffled[: len(nodes) // 5]


def recall_at_k(data: Data, probabilities: Tensor, k: int | None = None) -> float:
    """The share of the gold (item, category) pairs that the k best-scored pairs find.

    Each test list votes for its most probable category for its items; a pair's score is the largest probability of a
    vote for it. A gold pair is found when any item similar to its own is among the k best pairs with its
    category. Ties are broken by item, then category.

    Args:
        data: `diel` or `diel_like`.
        probabilities: of each class for each node, `[N, C]`; only the rows of test lists are read.
        k: how many pairs count as predictions; None: `data.recall_k` (240,000 at DIEL's full size).

    Raises:
        ValueError: when the shapes do not fit, or `data` has no gold pairs.
    """
    if data.get("gold_class") is None:
        raise ValueError("`data` must have gold pairs, as diel and diel_like have. Got none.")
    if probabilities.shape != (data.num_nodes, data.num_classes):
        wanted = [data.num_nodes, data.num_classes]
        raise ValueError(f"`probabilities` must have shape {wanted}. Got {list(probabilities.shape)}.")
    k = data.recall_k if k is None else k
    check_range("k", k, 1)
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
    return best_pairs(pair, vote, k)[0]


def best_pairs(pair: np.ndarray, vote: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k pairs with the largest votes, and these, `[≤ k]`; ties are broken by pair.

    Args:
        pair: item · C + category of each vote, `[V]`.
        vote: the probability of each, `[V]`.
        k: how many.
    """
    order = np.lexsort((-vote, pair))  # by pair, its largest vote first
    pair, vote = pair[order], vote[order]
    first = np.ones(len(pair), bool)
    first[1:] = pair[1:] != pair[:-1]
    pair, vote = pair[first], vote[first]
    best = np.argsort(-vote, kind="stable")[:k]
    return pair[best], vote[best]


def gold_pairs(data: Data) -> Tensor:
    """The gold pairs that each node is similar to, as a sparse CSR matrix `[N, G]` of ones."""
    gold = torch.repeat_interleave(torch.arange(len(data.gold_class)), data.similar_ptr.diff())
    order = data.similar_item.argsort(stable=True)
    ptr = pointers(torch.bincount(data.similar_item, minlength=data.num_nodes))
    ones = np.ones(len(order), np.float32)
    return csr_tensor(ptr.numpy(), gold[order].numpy(), ones, (data.num_nodes, len(data.gold_class)))


def _found(data: Data, predicted: np.ndarray) -> np.ndarray:
    """Whether each gold pair has a similar item among the predicted pairs, `[G]`."""
    gold = torch.repeat_interleave(torch.arange(len(data.gold_class)), data.similar_ptr.diff())
    hit = predicted[(data.similar_item * data.num_classes + data.gold_class[gold]).numpy()]
    return np.bincount(gold.numpy()[hit], minlength=len(data.gold_class)) > 0
