"""A generated stand-in for DIEL: its counts, its shape, and gold pairs that a model can find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpnn.check import check_range
from gpnn.csr import pointers
from gpnn.data.diel import CATEGORIES, RECALL_K, Lists
from gpnn.data.synthetic import draw_words, sorted_distinct

if TYPE_CHECKING:
    from torch_geometric.data import Data

# DIEL's counts (the paper's Table 1; the lists' number is its authors')
NUM_LISTS, NUM_ITEMS, NUM_EDGES = 4_036_700, 336_308, 4_464_261
NUM_WORDS, WORDS_PER_LIST = 1_233_598, 20
LABEL_RATE = 0.0095  # lists with a seed item, of all nodes
FINDABLE = 0.617  # gold pairs that occur in the lists at all
OTHER = len(CATEGORIES)  # the topic of items that belong to no category
TOPIC_SHARES = (0.1, 0.1, 0.1, 0.1, 0.6)


def diel_like(*, scale: float = 1.0, mixing: float = 0.2, feature_noise: float = 0.5, seed: int = 0) -> Data:
    """Generated stand-in for DIEL at its full size, 4,373,008 nodes, or scaled down; recall included.

    Items belong to one of the four categories or to none. A list is about the topic of its first item, and so
    are its words and, mostly, its other items. Some items of each category are seeds; lists that name one are
    labelled, about as many of each category, and a fifth of them validates. Other items of the categories are gold,
    with a few similar items each; 38.3 % of the gold pairs name items that no list has.

    Args:
        scale: multiplies the numbers of lists, items, edges and words, and k.
        mixing: share of a list's further items that are drawn from all items.
        feature_noise: share of a list's words that are drawn from all words.

    >>> data = diel_like(scale=0.001)
    >>> data.num_nodes, data.num_edges // 2, data.recall_k
    (4373, 4464, 240)
    """
    check_range("scale", scale, 0.001, 1000)
    num_lists, num_items = round(NUM_LISTS * scale), round(NUM_ITEMS * scale)
    rng = np.random.default_rng([seed, 0])
    topic = rng.choice(len(TOPIC_SHARES), num_items, p=TOPIC_SHARES)
    has_item, list_topic = _draw_facts(topic, num_lists, round(NUM_EDGES * scale), mixing, rng)
    num_words = round(NUM_WORDS * scale)
    word_ptr, words = draw_words(
        list_topic,
        num_topics=len(TOPIC_SHARES),
        num_words=num_words,
        per_node=WORDS_PER_LIST,
        noise=feature_noise,
        rng=rng,
        skew=2.0,
    )
    seeds, gold = _draw_seeds(topic, has_item[1], LABEL_RATE * (num_lists + num_items), rng)
    gold_class, similar_ptr, similar = _draw_similar(gold, topic, rng)
    lists = Lists(
        has_item, num_lists, num_items, word_ptr, words, num_words,
        seeds, gold_class, similar_ptr, similar, round(RECALL_K * scale),
    )  # fmt: skip
    return lists.to_data(seed)


class _Topics:
    """Draws items, popular ones more often: of all items, or of one topic."""

    def __init__(self, topic: np.ndarray, rng: np.random.Generator) -> None:
        self.rng, self.size = rng, np.bincount(topic, minlength=len(TOPIC_SHARES))
        self.members, self.start = np.argsort(topic, kind="stable"), np.cumsum(self.size) - self.size

    def any_item(self, count: int) -> np.ndarray:
        return (self.rng.random(count) ** 2 * len(self.members)).astype(np.int64)

    def same_topic(self, topic: np.ndarray) -> np.ndarray:
        place = (self.rng.random(len(topic)) ** 2 * self.size[topic]).astype(np.int64)
        return self.members[self.start[topic] + place]


def _draw_facts(
    topic: np.ndarray, num_lists: int, num_edges: int, mixing: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Distinct (list, item) facts, `[2, E]`, and the topic of each list: every item and every list occurs."""
    num_items, draw = len(topic), _Topics(topic, rng)
    first = np.concatenate([np.arange(num_items), draw.any_item(num_lists - num_items)])
    first = rng.permutation(first)
    list_topic = topic[first]
    keys = np.arange(num_lists) * num_items + first
    while len(keys) < num_edges:
        more = rng.integers(num_lists, size=num_edges - len(keys))
        item = np.where(rng.random(len(more)) < mixing, draw.any_item(len(more)), draw.same_topic(list_topic[more]))
        keys = sorted_distinct(np.concatenate([keys, more * num_items + item]))
    return np.stack(np.divmod(keys, num_items)), list_topic


def _draw_seeds(
    topic: np.ndarray, items: np.ndarray, num_labelled: float, rng: np.random.Generator
) -> tuple[list[np.ndarray], np.ndarray]:
    """The seed items of each category, in about `num_labelled` lists together, and half of the others as gold."""
    degree = np.bincount(items, minlength=len(topic))
    relevant = rng.permutation(np.flatnonzero(topic != OTHER))
    seeds = [_fill(relevant[topic[relevant] == category], degree, num_labelled / OTHER) for category in range(OTHER)]
    rest = relevant[~np.isin(relevant, np.concatenate(seeds))]
    return seeds, rest[: max(1, len(rest) // 2)]


def _fill(items: np.ndarray, degree: np.ndarray, num_lists: float) -> np.ndarray:
    """Items that are in about `num_lists` lists, of which none but the last is in most of these."""
    taken, left = np.zeros(len(items), bool), num_lists
    for place, size in enumerate(degree[items]):
        if size <= min(left, num_lists / 2):
            taken[place] = True
            left -= size
    missed = np.where(taken, np.inf, np.abs(degree[items] - left))
    if missed.min() < left or not taken.any():
        taken[missed.argmin()] = True
    return items[taken]


def _draw_similar(
    gold: np.ndarray, topic: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Category of each gold pair, and in CSR form its similar items: itself and up to two of its category."""
    draw = _Topics(topic, rng)
    lengths = rng.integers(1, 4, len(gold))
    owner = np.repeat(np.arange(len(gold)), lengths)
    similar = draw.same_topic(topic[gold[owner]])
    similar[np.cumsum(lengths) - lengths] = gold
    num_absent = round(len(gold) * (1 - FINDABLE) / FINDABLE)
    gold_class = np.concatenate([topic[gold], rng.integers(OTHER, size=num_absent)])
    ptr = pointers(np.append(lengths, np.zeros(num_absent, np.int64)))
    return gold_class, ptr, similar
