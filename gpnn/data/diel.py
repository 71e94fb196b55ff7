"""DIEL: medical lists and the entities they name, from the raw files (Bing et al., 2015; the paper, section 5.3)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpnn.csr import pointers
from gpnn.data.lists import CATEGORIES, Lists
from gpnn.storage.read import shorten

if TYPE_CHECKING:
    from torch_geometric.data import Data

ARCHIVE = "http://cs.cmu.edu/~zhiliny/data/diel_data.tar.gz"
RECALL_K = 240_000
LARGEST_WORD = 2**31 - 2
SEEDS = "{split}/{category}_devel_50p_proppr_seed_forTrainList"
GOLD = "{split}/coverage_eva_multiAdded"


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
