"""DIEL: medical lists and the items they name, distant labels, gold pairs and recall at k.

Bing et al., 2015; the paper, section 5.3.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_range
from gpnn.csr import pointers
from gpnn.data.features import csr_tensor
from gpnn.data.splits import split_nodes
from gpnn.data.synthetic import with_reverse
from gpnn.storage.read import shorten

if TYPE_CHECKING:
    from torch_geometric.data import Data

ARCHIVE = "http://cs.cmu.edu/~zhiliny/data/diel_data.tar.gz"
RECALL_K = 240_000
LARGEST_WORD = 2**31 - 2
SEEDS = "{split}/{category}_devel_50p_proppr_seed_forTrainList"
GOLD = "{split}/coverage_eva_multiAdded"
CATEGORIES = ("disease", "drug", "ingredient", "symptom")


def diel(root: Path, *, split: int = 0, seed: int = 0) -> Data:
    """Medical entity extraction: 4,036,700 lists name 336,308 items; 1,233,598 sparse words, 4 categories.

    A list is labelled by the first category of which it names a seed item. Lists that name none are the test
    nodes; their labels are unknown, and :func:`gpnn.data.recall_at_k` evaluates the predictions for their items.
    Lists have words, items have none (the paper writes that entities have them; its preprocessing gives them to lists).

    Args:
        root: the data folder; the raw files are in `diel/` under it.
        split: which of the ten splits, 0 to 9.
        seed: the draw of the fifth of the labelled lists that validates; it is not trained on.

    Raises:
        ValueError: naming the file that is missing, or the file, line and value that cannot be read.
    """
    if split not in range(10):
        raise ValueError(f"`split` must be one of 0 to 9. Got {split!r}.")
    folder = root / "diel"
    for name in diel_files(split):
        if not (folder / name).is_file():
            raise ValueError(f"diel needs {folder / name}: no copy can be fetched file by file; unpack {ARCHIVE}.")
    return _read_lists(folder, split).to_data(seed)


def diel_files(split: int) -> list[str]:
    """The files that a split is read from, under `diel/`."""
    seeds = [SEEDS.format(split=split, category=category) for category in CATEGORIES]
    return ["list_features.txt", "hasItem.cfacts", "sim.dict", *seeds, GOLD.format(split=split)]


def _read_lists(folder: Path, split: int) -> Lists:
    lists: dict[str, int] = {}
    items: dict[str, int] = {}
    facts = array("q")
    for _, (_, one, other) in _rows(folder / "hasItem.cfacts", 3):
        facts.append(lists.setdefault(one, len(lists)))
        facts.append(items.setdefault(other, len(items)))
    if not facts:
        raise ValueError("hasItem.cfacts must hold at least one fact. Got none.")
    word_ptr, words, num_words = _read_words(folder / "list_features.txt", lists)
    gold, gold_class = _read_gold(folder / GOLD.format(split=split))
    similar_ptr, similar = _read_similar(folder / "sim.dict", gold, items)
    return Lists(
        has_item=np.frombuffer(facts, np.int64).reshape(-1, 2).T,
        num_lists=len(lists),
        num_items=len(items),
        word_ptr=word_ptr,
        words=words,
        num_words=num_words,
        seeds=[_read_seeds(folder / SEEDS.format(split=split, category=name), items) for name in CATEGORIES],
        gold_class=gold_class,
        similar_ptr=similar_ptr,
        similar=similar,
        recall_k=RECALL_K,
    )


def _read_words(path: Path, lists: dict[str, int]) -> tuple[np.ndarray, np.ndarray, int]:
    """The distinct words of each list in CSR form, and one past the largest word of the file."""
    from scipy.sparse import csr_matrix

    owner, words, widest = array("q"), array("q"), -1
    for line, (name, *entries) in _rows(path, 1, more=True):
        numbers = [_integer(path, line, entry) for entry in entries]
        if numbers and min(numbers) < 0:
            raise ValueError(f"{path.name}, line {line}: words must not be negative. Got {shorten(min(numbers))}.")
        if numbers and max(numbers) > LARGEST_WORD:
            raise ValueError(
                f"{path.name}, line {line}: words must be at most {LARGEST_WORD}. Got {shorten(max(numbers))}."
            )
        widest = max([widest, *numbers])
        if name in lists:
            words.extend(numbers)
            owner.extend([lists[name]] * len(numbers))
    ones = np.ones(len(words), np.float32)
    shape = (len(lists), widest + 1)
    matrix = csr_matrix((ones, (np.frombuffer(owner, np.int64), np.frombuffer(words, np.int64))), shape)
    matrix.sum_duplicates()
    return matrix.indptr, matrix.indices, widest + 1


def _read_seeds(path: Path, items: dict[str, int]) -> np.ndarray:
    known = [items[row[2]] for _, row in _rows(path, 3, more=True) if row[2] in items]
    return np.array(known, np.int64)


def _read_gold(path: Path) -> tuple[list[str], np.ndarray]:
    names, classes = [], []
    for line, (name, category) in _rows(path, 2):
        if category not in ("1", "2", "3", "4"):
            raise ValueError(f"{path.name}, line {line}: the category must be 1 to 4. Got {shorten(category)}.")
        names.append(name)
        classes.append(int(category) - 1)
    if not names:
        raise ValueError(f"{path.name} must hold at least one gold pair. Got none.")
    return names, np.array(classes, np.int64)


def _read_similar(path: Path, gold: list[str], items: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """For each gold pair, the items of the graph that are similar to its own, in CSR form."""
    similar: dict[str, list[int]] = {name: [] for name in gold}
    for _, (name, other) in _rows(path, 2):
        if name in similar and other in items:
            similar[name].append(items[other])
    lengths = [len(similar[name]) for name in gold]
    flat = [item for name in gold for item in similar[name]]
    return pointers(lengths), np.array(flat, np.int64)


def _rows(path: Path, width: int, *, more: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line that is not empty; `width` fields, or at least as many."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        for number, line in enumerate(stream, 1):
            fields = line.split()
            if fields and (len(fields) < width or (len(fields) > width and not more)):
                raise ValueError(f"{path.name}, line {number}: {width} fields are expected. Got {len(fields)}.")
            if fields:
                yield number, fields


def _integer(path: Path, line: int, entry: str) -> int:
    try:
        return int(entry)
    except ValueError:
        raise ValueError(f"{path.name}, line {line}: words must be integers. Got {shorten(entry)}.") from None


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
