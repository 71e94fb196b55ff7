"""What is made small: the error on labelled nodes, the disagreement of passes, the error of held-out confidences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

import torch
from torch import Tensor
from torch.nn import functional

from gpnn.distributed import SINGLE, ProcessGroup


class Weighing(TypedDict, total=False):
    """How targets count in a loss.

    Attributes:
        class_weight: `[C]`; of a class, or of a label's positives.
        label_smoothing: share of each target spread evenly over the classes (or over yes and no).
        weight: of each target, `[M]`; None: all count alike.
        total: what the sum is divided by to be a mean, where these are but some of the targets; None: their own
            number or weight.
    """

    class_weight: Tensor | None
    label_smoothing: float
    weight: Tensor | None
    total: Tensor | None


def supervised_loss(logits: Tensor, target: Tensor, **weighing: Unpack[Weighing]) -> Tensor:
    """The mean cross entropy, or the mean binary cross entropy for multi-label targets.

    Args:
        logits: `[M, C]`.
        target: classes `[M]`, or 0/1 labels `[M, C]`.
        weighing: how targets count.
    """
    class_weight, label_smoothing = weighing.get("class_weight"), weighing.get("label_smoothing", 0.0)
    weight, total = weighing.get("weight"), weighing.get("total")
    per_class = None if class_weight is None else class_weight.to(logits.dtype)
    if weight is not None and total is None:
        total = target_weight(target, logits.shape[1], class_weight, weight)
    how = "none" if weight is not None else "mean" if total is None else "sum"
    if target.dim() == 1:
        loss = functional.cross_entropy(logits, target, per_class, reduction=how, label_smoothing=label_smoothing)
    else:
        soft = target.to(logits.dtype) * (1 - label_smoothing) + label_smoothing / 2
        loss = functional.binary_cross_entropy_with_logits(logits, soft, pos_weight=per_class, reduction=how)
    if weight is not None:
        loss = weight.to(loss) @ loss if target.dim() == 1 else weight.to(loss) @ loss.sum(1)
    return loss if total is None else loss / total.to(loss)


def target_weight(
    target: Tensor, num_classes: int, class_weight: Tensor | None = None, weight: Tensor | None = None
) -> Tensor:
    """What a sum over these targets is divided by to be a mean, float64: their weights, or (node, label) pairs."""
    each = torch.ones(len(target), dtype=torch.float64, device=target.device) if weight is None else weight.double()
    if target.dim() == 2:
        return num_classes * each.sum()
    return each.sum() if class_weight is None else class_weight.double()[target] @ each


def consistency_loss(
    logits: Sequence[Tensor],
    *,
    temperature: float = 0.5,
    threshold: float = 0.0,
    group: ProcessGroup = SINGLE,
) -> Tensor:
    """The mean squared distance of each pass's prediction to the sharpened average of all passes.

    With p_s the prediction of pass s and p̄ their average, the target is q_c ∝ p̄_c^(1/temperature), which
    takes no gradient, and the loss is 1/S Σ_s mean_v ‖p_s(v) − q(v)‖² (GRAND, Feng et al. 2020, section 3.3).

    Args:
        logits: S tensors `[M, C]`; for multi-label, `[M, C, 2]` as :func:`yes_or_no` gives them.
        temperature: below 1 sharpens.
        threshold: nodes whose largest average probability is below it do not count.
        group: the processes among which the nodes are shared; the loss is this one's share.
    """
    predictions = torch.stack([torch.softmax(full_precision(each), -1) for each in logits])  # [S, M, …, C]
    with torch.no_grad():
        average = predictions.mean(0)
        target = torch.softmax(average.log() / temperature, -1)
        sure = average.flatten(1).amax(1) >= threshold
        count = group.all_reduce(sure.sum())
        weight = sure.to(predictions.dtype) / count.clamp(min=1)  # [M]
    distance = (predictions - target).square().flatten(2).sum(2)  # [S, M]
    return (distance.mean(0) * weight).sum()


def yes_or_no(logits: Tensor) -> Tensor:
    """The logits `[M, C]` of C labels as C questions with two answers each, `[M, C, 2]`."""
    return torch.stack([logits, torch.zeros_like(logits)], -1)


def full_precision(values: Tensor) -> Tensor:
    """The values in float32, or in float64 where they are."""
    return values if values.dtype == torch.float64 else values.float()


def balanced_class_weight(target: Tensor, num_classes: int, group: ProcessGroup = SINGLE) -> Tensor:
    """Weights `[C]` that make classes count alike: M / (C·count); for multi-label, negatives per positive.

    Targets of all processes of the group count.
    """
    count = group.all_reduce(target.sum(0) if target.dim() == 2 else torch.bincount(target, minlength=num_classes))
    size = group.all_reduce(torch.tensor(len(target), device=target.device))
    count, most = count.float(), count.float().clamp(min=1)
    return (size - count) / most if target.dim() == 2 else size / (num_classes * most)


BINS = 10
FOLDS = 5  # of the validation nodes; each is tried with what suits the others
MOST = 20_000  # validation predictions that a temperature or offsets follow
SHARPEST, SOFTEST = 0.05, 20.0
HALVINGS = 40
RIDGE = 20.0  # of the offsets of classes: the precision of a normal distribution around 0
NEWTON_STEPS = 20


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
    device, sure, right = sure.device, sure.double().cpu(), right.double().cpu()  # a GPU's sums by bin vary
    place = (sure * BINS).long().clamp(max=BINS - 1)
    columns = (torch.ones_like(sure), sure, right)
    found = torch.stack([torch.bincount(place, weights=column, minlength=BINS) for column in columns], 1)
    return found.to(device)


def choose_temperature(logits: Tensor, target: Tensor) -> float:
    """The temperature T of softmax(logits / T) that suits held-out predictions, or 1 where none is clearly better.

    Args:
        logits: `[M, C]`.
        target: classes `[M]`.
    """
    found = _choose(logits, target, fit_temperature, torch.div)
    return 1.0 if found is None else float(found)


def choose_offsets(logits: Tensor, target: Tensor) -> tuple[float, ...]:
    """What is added to the logits of each class to suit held-out predictions, or () where that is not clearly better.

    Args:
        logits: `[M, C]`.
        target: classes `[M]`.
    """
    found = _choose(logits, target, fit_offsets, torch.add)
    return () if found is None else tuple(found.tolist())


def _choose(
    logits: Tensor,
    target: Tensor,
    fit: Callable[[Tensor, Tensor], Tensor],
    change: Callable[[Tensor, Tensor], Tensor],
) -> Tensor | None:
    """What is fitted to all predictions, or None where it is not clearly better than nothing.

    Each fifth of the predictions is tried with what is fitted to the others. It is better where their log loss falls by
    more than its standard error.

    Args:
        logits: `[M, C]`.
        target: classes `[M]`.
        fit: gives what suits logits and targets.
        change: gives the logits that it makes of others.
    """
    if len(target) < 2 * FOLDS:
        return None
    # by their losses: the same fifths in whatever order processes give them
    kept = _losses(logits, target).sort().indices[:: -(-len(target) // MOST)]
    logits, target = logits[kept].double(), target[kept]
    fold = torch.arange(len(target), device=target.device) % FOLDS
    gain = torch.zeros_like(logits[:, 0])
    for each in range(FOLDS):
        held, others = fold == each, fold != each
        changed = change(logits[held], fit(logits[others], target[others]))
        gain[held] = _losses(logits[held], target[held]) - _losses(changed, target[held])
    clear = float(gain.mean()) > float(gain.std()) / len(gain) ** 0.5
    return fit(logits, target) if clear else None


def fit_temperature(logits: Tensor, target: Tensor) -> Tensor:
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
    return logits.new_tensor(1 / middle)


def fit_offsets(logits: Tensor, target: Tensor) -> Tensor:
    """The offset of each class with the least log loss and a ridge, `[C]`, by Newton's method.

    With them the predicted shares of classes are those of the targets, but for the ridge, which keeps the offsets of
    classes with few targets small (bias-corrected temperature scaling: Alexandari et al. 2020).
    """
    num_classes = logits.shape[1]
    offsets, ridge = logits.new_zeros(num_classes), RIDGE * torch.eye(num_classes).to(logits)
    counts = torch.bincount(target, minlength=num_classes)
    for _ in range(NEWTON_STEPS):
        shares = torch.softmax(logits + offsets, 1)
        slope = shares.sum(0) - counts + RIDGE * offsets
        curvature = shares.sum(0).diag() - shares.T @ shares + ridge
        offsets = offsets - torch.linalg.solve(curvature, slope).clamp(-1.0, 1.0)
    return offsets


def _losses(logits: Tensor, target: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, target, reduction="none")
