"""What a model predicts, and how good that is on each split."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.kernels.execution import float32_products
from gpnn.train.loss import full_precision, supervised_loss, whole_weight
from gpnn.train.metrics import CLASS_METRICS, METRICS
from gpnn.train.task import Task

if TYPE_CHECKING:
    from gpnn.engine import Plan


def predict_logits(model: nn.Module, x: Tensor | None, plan: Plan, *, precision: str = "float32") -> Tensor:
    """The logits `[N, C]` of every node, float32 or better, in evaluation mode and without gradients.

    Args:
        model: called as `model(x, plan)`; its mode is left as it was found.
        x: features `[N, F]` on the model's device, or None.
        plan: the lowered schedule.
        precision: "float32", "tf32" or "bf16".
    """
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), products(precision), autocast(model, precision):
            return full_precision(model(x, plan))
    finally:
        model.train(training)


def probabilities(logits: Tensor, *, multi_label: bool = False) -> Tensor:
    """Softmax over the classes, or the sigmoid of each label, `[N, C]`."""
    return torch.sigmoid(logits) if multi_label else torch.softmax(logits, 1)


def predict_probabilities(
    model: nn.Module, x: Tensor | None, plan: Plan, *, precision: str = "float32", multi_label: bool = False
) -> Tensor:
    """The probability of each class for every node, `[N, C]`, on the CPU; arguments as in :func:`predict_logits`.

    Raises:
        ValueError: when one is not a number, naming the node: a class with confidence NaN is no prediction.
    """
    logits = predict_logits(model, None if x is None else x.to(plan.device), plan, precision=precision)
    found = probabilities(logits, multi_label=multi_label).cpu()
    if bool(found.isnan().any()):
        node = int(found.isnan().any(1).nonzero()[0])
        raise ValueError(f"Predictions must be numbers. Got nan at node {node}; try features of a smaller scale.")
    return found


def score(
    logits: Tensor, task: Task, split: str, metrics: Sequence[str] = tuple(CLASS_METRICS), group: ProcessGroup = SINGLE
) -> dict[str, float]:
    """The loss and the named metrics on a split's labelled nodes, as `{split}_{name}`; none without nodes.

    The nodes are those of all processes of the group.
    """
    nodes = task.nodes[split]
    if not group.all_reduce(torch.tensor(nodes.numel())):
        return {}
    target = task.target(split)
    share = supervised_loss(logits[nodes], target, total=whole_weight(target, task.num_classes, group=group))
    predicted = probabilities(logits[nodes], multi_label=task.multi_label)
    scores = {f"{split}_loss": float(group.all_reduce(share))}
    return scores | {f"{split}_{name}": METRICS[name](predicted, target, group) for name in metrics}


def autocast(model: nn.Module, precision: str) -> AbstractContextManager[None]:
    """The context in which the model's products run in bf16, where the recipe has it."""
    device = next(model.parameters()).device.type
    return torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16")


def products(precision: str) -> AbstractContextManager[None]:
    """The context in which float32 products, also a backward pass's, are rounded to TF32, where the recipe has it."""
    return float32_products("high" if precision == "tf32" else None)
