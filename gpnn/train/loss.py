"""What training makes small: the error on labelled nodes, and the disagreement of several passes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def supervised_loss(
    logits: Tensor, target: Tensor, *, class_weight: Tensor | None = None, label_smoothing: float = 0.0
) -> Tensor:
    """The mean cross entropy, or the mean binary cross entropy for multi-label targets.

    Args:
        logits: `[M, C]`.
        target: classes `[M]`, or 0/1 labels `[M, C]`.
        class_weight: `[C]`; of a class, or of a label's positives.
        label_smoothing: share of each target spread evenly over the classes (or over yes and no).
    """
    if target.dim() == 1:
        return functional.cross_entropy(logits, target, weight=class_weight, label_smoothing=label_smoothing)
    soft = target.to(logits.dtype) * (1 - label_smoothing) + label_smoothing / 2
    return functional.binary_cross_entropy_with_logits(logits, soft, pos_weight=class_weight)


def consistency_loss(logits: Sequence[Tensor], *, temperature: float = 0.5, threshold: float = 0.0) -> Tensor:
    """The mean squared distance of each pass's prediction to the sharpened average of all passes.

    With p_s the prediction of pass s and p̄ their average, the target is q_c ∝ p̄_c^(1/temperature), which
    takes no gradient, and the loss is 1/S Σ_s mean_v ‖p_s(v) − q(v)‖² (GRAND, Feng et al. 2020, section 3.3).

    Args:
        logits: S tensors `[M, C]`; for multi-label, `[M, C, 2]` as :func:`yes_or_no` gives them.
        temperature: below 1 sharpens.
        threshold: nodes whose largest average probability is below it do not count.
    """
    predictions = torch.stack([torch.softmax(each.float(), -1) for each in logits])  # [S, M, …, C]
    with torch.no_grad():
        average = predictions.mean(0)
        target = torch.softmax(average.log() / temperature, -1)
        sure = average.flatten(1).amax(1) >= threshold
        weight = sure.float() / sure.sum().clamp(min=1)  # [M]
    distance = (predictions - target).square().flatten(2).sum(2)  # [S, M]
    return (distance.mean(0) * weight).sum()


def yes_or_no(logits: Tensor) -> Tensor:
    """The logits `[M, C]` of C labels as C questions with two answers each, `[M, C, 2]`."""
    return torch.stack([logits, torch.zeros_like(logits)], -1)


def balanced_class_weight(target: Tensor, num_classes: int) -> Tensor:
    """Weights `[C]` that make classes count alike: M / (C·count); for multi-label, negatives a positive."""
    if target.dim() == 2:
        positives = target.float().sum(0)
        return (target.shape[0] - positives) / positives.clamp(min=1)
    count = torch.bincount(target, minlength=num_classes).float()
    return target.numel() / (num_classes * count.clamp(min=1))
