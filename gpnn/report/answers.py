"""Answers: how often each class was given to the nodes of each, and how sure the model was, in counts that add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

MAX_CLASSES = 30
BINS = 10
SPLIT_NAMES = {"test": "test", "val": "validation", "train": "training"}

Total = Callable[[Tensor], Tensor]  # sums everyone's counts, where several processes call something together


@dataclass(frozen=True, eq=False)
class Answers:
    """What the model answered for the labelled nodes of each held-out split.

    Attributes:
        shown: the classes that are shown, the largest ones, `[k]`.
        classes: by the split's name in words, how many nodes of each shown class (row) were given each of them or
            another (last column), `[k, k + 1]`; of several labels a node, how many nodes have each shown label, were
            given it, and both, `[k, 3]`.
        bins: likewise, the answers in each bin of confidence, their confidence added up, and the right ones,
            float64, `[10, 3]`.
    """

    shown: Tensor
    classes: Mapping[str, Tensor]
    bins: Mapping[str, Tensor]


def count_answers(
    likely: Tensor, y: Tensor, splits: Mapping[str, Tensor], total: Total = lambda counts: counts
) -> Answers | None:
    """The answers for the test and validation nodes, for training nodes where there are no others; None of none.

    Args:
        likely: probability of each class, `[n, C]`.
        y: classes, `[n]`, or labels, `[n, C]`.
        splits: the labelled nodes of "test", "val" and "train" among these, some maybe empty.
        total: sums counts over all processes; as it stands: this one has all nodes.
    """
    sizes = {name: int(total(torch.tensor(splits[name].numel()))) for name in SPLIT_NAMES}
    held_out = [name for name in ("test", "val") if sizes[name]] or [name for name in sizes if sizes[name]]
    if not held_out:
        return None
    shown = largest_classes(total(_class_sizes(y[splits[held_out[0]]], likely.shape[1])))
    classes, bins = {}, {}
    for name in held_out:
        sure, target = likely[splits[name]].nan_to_num(0.0), y[splits[name]]
        classes[SPLIT_NAMES[name]] = total(_by_class(sure, target, shown))
        bins[SPLIT_NAMES[name]] = total(bin_answers(*_confidence(sure, target)))
    return Answers(shown, classes, bins)


def confusion(target: Tensor, prediction: Tensor, shown: Tensor, num_classes: int) -> Tensor:
    """How many nodes of each shown class (row) were given each of them (column) or another (last column), `[k, k + 1]`.

    >>> confusion(torch.tensor([0, 0, 2]), torch.tensor([0, 1, 2]), torch.tensor([0, 2]), 3).tolist()
    [[1, 0, 1], [0, 1, 0]]
    """
    size = len(shown)
    place = torch.full((num_classes,), size)
    place[shown] = torch.arange(size)
    pairs = place[target] * (size + 1) + place[prediction]
    return torch.bincount(pairs, minlength=(size + 1) ** 2).view(size + 1, size + 1)[:size]


def largest_classes(counts: Tensor) -> Tensor:
    """The classes with the most nodes, at most thirty, in their own order."""
    return counts.argsort(descending=True, stable=True)[:MAX_CLASSES].sort().values


def bin_answers(confidence: Tensor, right: Tensor) -> Tensor:
    """Answers, summed confidence and right answers of each bin of equal width, float64, `[10, 3]`.

    Args:
        confidence: probability of each answer, `[M]`.
        right: whether it was right, bool, `[M]`.
    """
    place = (confidence.double() * BINS).long().clamp(max=BINS - 1)
    columns = (torch.ones(len(place), dtype=torch.float64), confidence.double(), right.double())
    return torch.stack([torch.bincount(place, weights=column, minlength=BINS) for column in columns], 1)


def _class_sizes(target: Tensor, num_classes: int) -> Tensor:
    return (target > 0.5).sum(0) if target.dim() == 2 else torch.bincount(target, minlength=num_classes)


def _by_class(sure: Tensor, target: Tensor, shown: Tensor) -> Tensor:
    if target.dim() == 1:
        return confusion(target, sure.argmax(1), shown, sure.shape[1])
    true, given = target[:, shown] > 0.5, sure[:, shown] > 0.5
    return torch.stack([true.sum(0), given.sum(0), (true & given).sum(0)], 1)


def _confidence(sure: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence and rightness of each answer, flat; every label of a node is one answer."""
    if target.dim() == 2:
        yes = sure > 0.5
        return torch.where(yes, sure, 1 - sure).flatten(), (yes == (target > 0.5)).flatten()
    confidence, answer = sure.max(1)
    return confidence, answer == target
