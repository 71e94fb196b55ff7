"""How good predictions are: each metric maps predictions and targets to one number.

Higher is better but for those in `SMALLER_IS_BETTER`. Each takes the nodes of this process and gives the metric over
the nodes of all processes of a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.train.loss import calibration_error


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
    if target.dim() == 2:
        relevant, predicted = target > 0.5, probabilities > 0.5
        counts = torch.stack([(predicted & relevant).sum(0), predicted.sum(0) + relevant.sum(0)])  # [2, C]
    else:
        chosen = probabilities.argmax(1)
        of = lambda classes: torch.bincount(classes, minlength=probabilities.shape[1])  # noqa: E731
        counts = torch.stack([of(target[chosen == target]), of(chosen) + of(target)])
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


def balanced_accuracy(probabilities: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """The mean recall over the classes that are in the targets; of each label, of its yes and its no.

    >>> balanced_accuracy(torch.eye(2)[[0, 0, 0]], torch.tensor([0, 0, 1]))
    0.5
    """
    if target.dim() == 2:  # each label is a question with two classes
        yes, probabilities = target > 0.5, (probabilities > 0.5).double()
        hits = torch.stack([(yes * probabilities).sum(0), (~yes * (1 - probabilities)).sum(0)])
        counts = torch.stack([yes.sum(0), (~yes).sum(0)])
    else:
        num_classes = probabilities.shape[1]
        counts = torch.bincount(target, minlength=num_classes)
        hits = torch.bincount(target[probabilities.argmax(1) == target], minlength=num_classes)
    hits, counts = group.all_reduce(torch.stack([hits.double(), counts.double()]))
    present = counts > 0
    return float((hits[present] / counts[present]).mean()) if present.any() else math.nan


def log_loss(probabilities: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """The mean of −log p of the right class; for multi-label targets, of each (node, label) pair's right answer.

    Probabilities count as at least 1e-15, so that one wrong certainty does not make the mean infinite.
    """
    if target.dim() == 2:
        p = probabilities.double()
        right = torch.where(target > 0.5, p, 1 - p).flatten()
    else:
        right = probabilities.gather(1, target[:, None]).flatten().double()
    return mean_of(-right.clamp(1e-15, 1.0).log(), group)


def r2(predicted: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """R² = 1 − Σ(y − ŷ)² / Σ(y − ȳ)², the share of the variance that is explained; NaN where all targets are equal.

    Args:
        predicted: `[M, columns]`, the first of which holds the predicted numbers ŷ.
        target: numbers y, `[M]`.
        group: the processes whose nodes count.

    >>> r2(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([1.0, 2.0, 3.0]))
    0.5
    """
    y = target.double()
    variance = mean_of((y - mean_of(y, group)).square(), group)
    return 1 - mean_of(_errors(predicted, target).square(), group) / variance if variance else math.nan


def mae(predicted: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """The mean absolute error, in the targets' unit."""
    return mean_of(_errors(predicted, target).abs(), group)


def rmse(predicted: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """The root of the mean squared error, in the targets' unit."""
    return math.sqrt(mean_of(_errors(predicted, target).square(), group))


def spearman(predicted: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN where all targets or all predictions are equal."""
    both = torch.stack([predicted[:, 0].double(), target.double()], 1)
    ranks = torch.stack([_mean_rank(each) for each in torch.cat(group.all_gather(both)).unbind(1)])
    centred = ranks - ranks.mean(1, keepdim=True)
    scale = float(centred.norm(dim=1).prod())
    return float((centred[0] * centred[1]).sum()) / scale if scale else math.nan


def coverage(predicted: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """The share of targets that lie in their interval; `predicted` holds number, low and high, `[M, 3]`."""
    _, low, high = predicted.unbind(1)
    return mean_of(((low <= target) & (target <= high)).double(), group)


CLASS_METRICS: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "roc_auc": roc_auc,
    "average_precision": average_precision,
    "balanced_accuracy": balanced_accuracy,
    "log_loss": log_loss,
}
NUMBER_METRICS: dict[str, Callable[..., float]] = {"r2": r2, "mae": mae, "rmse": rmse, "spearman": spearman}
METRICS = CLASS_METRICS | NUMBER_METRICS | {"coverage": coverage, "calibration_error": calibration_error}
SMALLER_IS_BETTER = ("loss", "log_loss", "calibration_error", "mae", "rmse")
UNBALANCED = 0.25  # share of the rarer of two classes below which accuracy says little


def merit(name: str, value: float) -> float:
    """A metric's value, or that of the loss, turned so that higher is better.

    >>> merit("accuracy", 0.9), merit("mae", 2.5)
    (0.9, -2.5)
    """
    return -value if name in SMALLER_IS_BETTER else value


def choose_metric(name: str, target: Tensor, group: ProcessGroup = SINGLE) -> str:
    """The metric's name: the given one, or what suits the training targets where it is "auto".

    That is accuracy; ROC AUC of multi-label targets, and of two classes of which one has less than a quarter of the
    training nodes.

    Args:
        name: "auto", "loss" or a name of `METRICS`.
        target: of the training nodes of this process.
        group: the processes whose nodes count.
    """
    if name != "auto":
        check_choice("metric", name, ("auto", "loss", *CLASS_METRICS))
        return name
    if target.dim() == 2:
        return "roc_auc"
    most = int(group.all_reduce_max(target.max() if target.numel() else torch.tensor(-1)))
    if most != 1:
        return "accuracy"
    counts = group.all_reduce(torch.bincount(target, minlength=2))
    return "roc_auc" if int(counts.min()) < UNBALANCED * int(counts.sum()) else "accuracy"


def _errors(predicted: Tensor, target: Tensor) -> Tensor:
    return predicted[:, 0].double() - target.double()


def mean_of(values: Tensor, group: ProcessGroup = SINGLE) -> float:
    """The mean over the values of all processes; NaN where there are none."""
    total, count = group.all_reduce(torch.stack([values.sum(), values.new_tensor(float(values.numel()))])).tolist()
    return total / count if count else math.nan


def _mean_rank(values: Tensor) -> Tensor:
    """The rank of each value, from 1, the mean of theirs where several are equal."""
    _, level, count = torch.unique(values, return_inverse=True, return_counts=True)
    return (count.cumsum(0).double() - (count.double() - 1) / 2)[level]


def _mean_over_classes(
    metric: Callable[[Tensor, Tensor], float], probabilities: Tensor, target: Tensor, group: ProcessGroup
) -> float:
    """The mean of a metric of one class's scores over the classes that have both positives and negatives."""
    single = target.dim() == 1
    values = []
    for number, score in enumerate(probabilities.unbind(1)):
        if single and number == 0 and probabilities.shape[1] == 2:  # two classes are one question
            continue
        label = target == number if single else target[:, number] > 0.5
        positive = torch.cat(group.all_gather(label.to(torch.uint8))).bool()
        if positive.any() and not positive.all():
            values.append(metric(torch.cat(group.all_gather(score.double())), positive))
    return sum(values) / len(values) if values else float("nan")


def _binary_roc_auc(score: Tensor, positive: Tensor) -> float:
    yes, no = _sorted(score[positive]), _sorted(score[~positive])
    above = torch.searchsorted(no, yes).sum() + torch.searchsorted(no, yes, right=True).sum()
    return int(above) / (2 * len(yes) * len(no))


def _binary_average_precision(score: Tensor, positive: Tensor) -> float:
    """The mean over the positives of the precision at their scores: equal to the sum over thresholds, ties included."""
    yes, no = _sorted(score[positive]), _sorted(score[~positive])
    hits, others = len(yes) - torch.searchsorted(yes, yes), len(no) - torch.searchsorted(no, yes)
    return float((hits.double() / (hits + others)).mean())


def _sorted(values: Tensor) -> Tensor:
    """The values in rising order: numpy sorts them many times faster than torch does on a CPU."""
    return values.sort().values if values.is_cuda else torch.from_numpy(np.sort(values.numpy(force=True)))
