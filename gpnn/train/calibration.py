"""How far confidence is from the share that is right, and the temperature that brings them together."""

from __future__ import annotations

import torch
from torch import Tensor

from gpnn.distributed import SINGLE, ProcessGroup

BINS = 10
FOLDS = 5  # of the validation nodes; each is tried with the temperature of the others
MOST = 20_000  # validation predictions that a temperature follows
SHARPEST, SOFTEST = 0.05, 20.0
HALVINGS = 40


def calibration_error(probabilities: Tensor, target: Tensor, group: ProcessGroup = SINGLE) -> float:
    """The expected calibration error Σ_b n_b/n · |accuracy_b − confidence_b| over ten bins (Guo et al. 2017).

    Args:
        probabilities: `[M, C]`.
        target: classes `[M]`, or 0/1 labels `[M, C]`, each of which is a prediction, yes or no.
        group: the processes whose nodes count.

    >>> round(calibration_error(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([0, 1])), 6)
    0.4
    """
    count, sure, good = group.all_reduce(bin_confidence(*confidence(probabilities, target))).T
    return float((good - sure).abs().sum() / count.sum())


def confidence(predicted: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence and rightness of each prediction, flat; every label of a node is one prediction."""
    if target.dim() == 2:
        yes = predicted > 0.5
        return torch.where(yes, predicted, 1 - predicted).flatten(), (yes == (target > 0.5)).flatten()
    sure, best = predicted.max(1)
    return sure, best == target


def bin_confidence(sure: Tensor, right: Tensor) -> Tensor:
    """Predictions, summed confidence and right predictions of each bin of equal width, float64, `[10, 3]`.

    Args:
        sure: probability of each prediction, `[M]`.
        right: whether it was right, bool, `[M]`.
    """
    place = (sure.double() * BINS).long().clamp(max=BINS - 1)
    columns = (torch.ones_like(sure, dtype=torch.float64), sure.double(), right.double())
    return torch.stack([torch.bincount(place, weights=column, minlength=BINS) for column in columns], 1)


def choose_temperature(logits: Tensor, target: Tensor) -> float:
    """The temperature T of softmax(logits / T) that suits held-out predictions, or 1 where none is clearly better.

    Each fifth of the predictions is tried with the temperature of the others. Where their log loss falls by more than
    its standard error, T is that of all.

    Args:
        logits: `[M, C]`.
        target: classes `[M]`.
    """
    if len(target) < 2 * FOLDS:
        return 1.0
    # by their losses: the same fifths in whatever order processes give them
    kept = _losses(logits, target).sort().indices[:: -(-len(target) // MOST)]
    logits, target = logits[kept].double(), target[kept]
    fold = torch.arange(len(target), device=target.device) % FOLDS
    gain = torch.zeros_like(logits[:, 0])
    for each in range(FOLDS):
        held, others = fold == each, fold != each
        found = fit_temperature(logits[others], target[others])
        gain[held] = _losses(logits[held], target[held]) - _losses(logits[held] / found, target[held])
    clear = float(gain.mean()) > float(gain.std()) / len(gain) ** 0.5
    return fit_temperature(logits, target) if clear else 1.0


def fit_temperature(logits: Tensor, target: Tensor) -> float:
    """The temperature of the least log loss, between 0.05 and 20.

    The loss is convex in 1/T, and its slope is the expected logit less that of the right class. One prediction more
    counts whose classes are equally likely, so that few, all of them right, do not lead to certainty (Platt 1999).
    """
    right = logits.gather(1, target[:, None]).sum() + logits.mean()
    least, most = 1 / SOFTEST, 1 / SHARPEST
    for _ in range(HALVINGS):
        middle = (least * most) ** 0.5
        expected = (torch.softmax(logits * middle, 1) * logits).sum(1)
        rising = float(expected.sum() + expected.mean()) > float(right)
        least, most = (least, middle) if rising else (middle, most)
    return 1 / middle


def _losses(logits: Tensor, target: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, target, reduction="none")
