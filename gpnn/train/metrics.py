"""How good predictions are: each metric maps probabilities and targets to one number, higher is better.

Each takes the nodes of this process and gives the metric over the nodes of all processes of a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gpnn.distributed import SINGLE, ProcessGroup


def accuracy(probabilities: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """The share of nodes whose most likely class is right; for multi-label targets, of (node, label) pairs.

    Args:
        probabilities: `[M, C]`.
        target: classes `[M]`, or 0/1 labels `[M, C]`.
        group: the processes whose nodes count.

    >>> accuracy(torch.tensor([[0.9, 0.1], [0.4, 0.6]]), torch.tensor([0, 0]))
    0.5
    """
    correct = (probabilities > 0.5) == (target > 0.5) if target.dim() == 2 else probabilities.argmax(1) == target
    counts = torch.stack([correct.sum(), torch.tensor(correct.numel(), device=correct.device)])
    num_correct, number = group.all_reduce(counts).tolist()
    return num_correct / number if number else math.nan


def macro_f1(probabilities: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """The mean F1 = 2·tp / (2·tp + fp + fn) over the classes that are in the targets or predicted.

    >>> round(macro_f1(torch.eye(3)[[0, 1, 1]], torch.tensor([0, 1, 2])), 3)
    0.556
    """
    num_classes = probabilities.shape[1]
    relevant = _one_hot(target, num_classes)
    predicted = _one_hot(probabilities if target.dim() == 2 else probabilities.argmax(1), num_classes)
    counts = torch.stack([(predicted & relevant).sum(0), predicted.sum(0) + relevant.sum(0)])  # [2, C]
    true, both = group.all_reduce(counts).double()
    return float((2 * true[both > 0] / both[both > 0]).mean())


def roc_auc(probabilities: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """The area under the ROC curve, averaged over the classes that have both positives and negatives.

    The chance that a positive is scored above a negative, ties counted half (Mann-Whitney).
    """
    return _mean_over_classes(_binary_roc_auc, probabilities, target, group)


def average_precision(probabilities: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """Σ (R_n − R_{n−1})·P_n over the distinct thresholds, averaged over the classes that have both."""
    return _mean_over_classes(_binary_average_precision, probabilities, target, group)


METRICS: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "roc_auc": roc_auc,
    "average_precision": average_precision,
}


def choose_metric(name: str, target: Tensor) -> str:
    """The metric's name: the given one, or for "auto" accuracy, and ROC-AUC of multi-label targets."""
    if name == "auto":
        return "roc_auc" if target.dim() == 2 else "accuracy"
    if name != "loss" and name not in METRICS:
        raise ValueError(f"`metric` must be one of auto, loss, {', '.join(METRICS)}. Got {name!r}.")
    return name


def _one_hot(target: Tensor, num_classes: int) -> Tensor:
    if target.dim() == 2:
        return target > 0.5
    return torch.nn.functional.one_hot(target, num_classes).bool()


def _mean_over_classes(
    metric: Callable[[Tensor, Tensor], float], probabilities: Tensor, target: Tensor, group: ProcessGroup
) -> float:
    """The mean of a metric of one class's scores over the classes that have both positives and negatives."""
    relevant = _one_hot(target, probabilities.shape[1])
    if target.dim() == 1 and probabilities.shape[1] == 2:  # two classes are one question
        probabilities, relevant = probabilities[:, 1:], relevant[:, 1:]
    values = []
    for score, label in zip(probabilities.unbind(1), relevant.unbind(1)):
        positive = torch.cat(group.all_gather(label.to(torch.uint8))).bool()
        if positive.any() and not positive.all():
            values.append(metric(torch.cat(group.all_gather(score.double())), positive))
    return sum(values) / len(values) if values else float("nan")


def _binary_roc_auc(score: Tensor, positive: Tensor) -> float:
    _, level, count = torch.unique(score, return_inverse=True, return_counts=True)
    rank = count.cumsum(0).double() - (count.double() - 1) / 2  # mean rank of each level, from 1
    num_positive = int(positive.sum())
    num_negative = positive.numel() - num_positive
    above = float(rank[level[positive]].sum()) - num_positive * (num_positive + 1) / 2
    return above / (num_positive * num_negative)


def _binary_average_precision(score: Tensor, positive: Tensor) -> float:
    levels, level, count = torch.unique(score, return_inverse=True, return_counts=True)
    hits = torch.bincount(level[positive], minlength=levels.numel()).flip(0).double()
    precision = hits.cumsum(0) / count.flip(0).cumsum(0)
    return float((hits * precision).sum() / hits.sum())
