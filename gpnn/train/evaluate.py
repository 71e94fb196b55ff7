"""What a model predicts, and how good that is on each split."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.kernels.execution import float32_products
from gpnn.train.examples import Examples
from gpnn.train.loss import full_precision
from gpnn.train.metrics import METRICS
from gpnn.train.task import Classification, Task

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
    return Classification(logits.shape[1], multi_label).predict(logits)


def predict_outputs(model: nn.Module, x: Tensor | None, plan: Plan, *, precision: str = "float32") -> Tensor:
    """As :func:`predict_logits`, with features on any device, and on the CPU.

    Raises:
        ValueError: when one is not a number, naming the node: a class with confidence NaN is no prediction.
    """
    found = predict_logits(model, None if x is None else x.to(plan.device), plan, precision=precision).cpu()
    if not bool(found.isfinite().all()):
        node = int((~found.isfinite()).any(1).nonzero()[0])
        raise ValueError(f"Predictions must be numbers. Got nan at node {node}; try features of a smaller scale.")
    return found


def score(
    outputs: Tensor,
    task: Task,
    examples: Examples,
    split: str,
    metrics: Sequence[str] | None = None,
    group: ProcessGroup = SINGLE,
) -> dict[str, float]:
    """The loss and metrics on a split's labelled nodes, as `{split}_{name}`; none without nodes.

    Args:
        outputs: of every node of this process, `[N, num_outputs]`.
        task: what they mean.
        examples: targets and nodes.
        split: "train", "val" or "test".
        metrics: names of metrics; None: all of the task's.
        group: the processes whose nodes count.
    """
    nodes = examples.nodes[split]
    if not group.all_reduce(torch.tensor(nodes.numel())):
        return {}
    target = examples.target(split)
    share = task.loss(outputs[nodes], target, total=task.total_weight(target, None, group))
    predicted = task.predict(outputs[nodes])
    metrics = task.metrics if metrics is None else metrics
    scores = {f"{split}_loss": float(group.all_reduce(share))}
    return scores | {f"{split}_{name}": METRICS[name](predicted, target, group) for name in metrics}


def autocast(model: nn.Module, precision: str) -> AbstractContextManager[None]:
    """The context in which the model's products run in bf16, where the recipe has it."""
    device = next(model.parameters()).device.type
    return torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16")


def products(precision: str) -> AbstractContextManager[None]:
    """The context in which float32 products, also a backward pass's, are rounded to TF32, where the recipe has it."""
    return float32_products("high" if precision == "tf32" else None)
