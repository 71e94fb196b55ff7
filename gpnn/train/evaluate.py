"""What a model predicts, and how good that is on each split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.kernels.execution import float32_products
from gpnn.nn.state_type import states_in
from gpnn.train.examples import SPLITS, Examples
from gpnn.train.loss import full_precision
from gpnn.train.metrics import METRICS
from gpnn.train.task import Classification, Task

if TYPE_CHECKING:
    from gpnn.engine import Plan
    from gpnn.nn import MaskKey

CALIBRATED = ("log_loss", "calibration_error")  # what a temperature is to lower


def call_model(
    model: nn.Module, x: Tensor | None, plan: Plan, key: MaskKey | None = None, rows: Tensor | None = None
) -> Tensor:
    """The outputs of some nodes, `[n, C]`; None: of all. A model that `selects_rows` computes no others.

    Args:
        model: called as `model(x, plan, key=key)`.
        x: features, or None.
        plan: the lowered schedule.
        key: of the random masks, or None.
        rows: the nodes, distinct, `[n]`.
    """
    given = {} if key is None else {"key": key}
    if rows is None or not getattr(model, "selects_rows", False):
        outputs = model(x, plan, **given)
        return outputs if rows is None else outputs[rows]
    return model(x, plan, **given, rows=rows)


def predict_logits(
    model: nn.Module, x: Tensor | None, plan: Plan, *, precision: str = "float32", rows: Tensor | None = None
) -> Tensor:
    """The logits `[N, C]` of every node, float32 or better, in evaluation mode and without gradients.

    Args:
        model: called as `model(x, plan)`; its mode is left as it was found.
        x: features `[N, F]` on the model's device, or None.
        plan: the lowered schedule.
        precision: as of :class:`gpnn.train.Recipe`.
        rows: the nodes whose logits are wanted, distinct, `[n]`; None: all.
    """
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), products(precision), autocast(model, precision):
            return full_precision(call_model(model, x, plan, rows=rows))
    finally:
        model.train(training)


def predict_pieces(
    model: nn.Module, x: Tensor | None, plan: Plan, *, precision: str = "float32"
) -> Iterator[tuple[Tensor, Tensor]]:
    """Nodes and their logits, `[n]` and `[n, C]`, a piece at a time, where those of all are too many to hold.

    Args:
        model: one that has `score_pieces`, as :class:`gpnn.nn.GPNN`; its mode is left as it was found.
        x: features where :func:`features_device` has them, or None.
        plan: the lowered schedule.
        precision: as of :class:`gpnn.train.Recipe`.
    """
    training = model.training
    model.eval()
    try:
        with products(precision), autocast(model, precision):
            for nodes, scores in model.score_pieces(x, plan):  # type: ignore[operator]
                yield nodes, full_precision(scores)
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
    x = None if x is None else x.to(features_device(x, model, plan))
    found = predict_logits(model, x, plan, precision=precision).cpu()
    if not bool(found.isfinite().all()):
        node = int((~found.isfinite()).any(1).nonzero()[0])
        raise ValueError(f"Predictions must be numbers. Got nan at node {node}; try features of a smaller scale.")
    return found


def features_device(x: Tensor | None, model: nn.Module, plan: Plan | None) -> torch.device:
    """Where features must lie: on the model's device, or where they are where the model copies what it needs."""
    copies = getattr(model, "copies_features", None)
    if x is not None and plan is not None and copies is not None and copies(x, plan):
        return x.device
    return next(model.parameters()).device


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
    nodes = examples.nodes[split].to(outputs.device, torch.int64)
    return score_split(outputs[nodes], task, examples, split, metrics, group)


def score_split(
    outputs: Tensor,
    task: Task,
    examples: Examples,
    split: str,
    metrics: Sequence[str] | None = None,
    group: ProcessGroup = SINGLE,
) -> dict[str, float]:
    """The same from the outputs of the split's nodes alone, `[n, num_outputs]`."""
    if not group.all_reduce(torch.tensor(examples.nodes[split].numel())):
        return {}
    target = examples.target(split).to(outputs.device)
    share = task.loss(outputs, target, total=task.total_weight(target, None, group))
    predicted = task.predict(outputs)
    metrics = task.metrics if metrics is None else metrics
    scores = {f"{split}_loss": float(group.all_reduce(share))}
    return scores | {f"{split}_{name}": METRICS[name](predicted, target, group) for name in metrics}


def calibrated_scores(
    outputs: Mapping[str, Tensor], task: Task, examples: Examples, group: ProcessGroup = SINGLE
) -> tuple[Task, dict[str, float]]:
    """The task calibrated on the validation nodes, and the loss and metrics of each split; collective.

    Where probabilities were calibrated, there are also `{split}_log_loss_before` and
    `{split}_calibration_error_before`, those of the model itself.

    Args:
        outputs: of the nodes of each split, `[n, num_outputs]`.
        task: what they mean.
        examples: targets and nodes.
        group: the processes whose nodes count.
    """
    if group.all_reduce(torch.tensor(examples.nodes["val"].numel())):
        task = task.calibrate(outputs["val"], examples.target("val").to(outputs["val"].device), group)
    scores: dict[str, float] = {}
    before = task.uncalibrated()
    for split in SPLITS:
        scores |= score_split(outputs[split], task, examples, split, group=group)
        if before is not None:
            found = score_split(outputs[split], before, examples, split, CALIBRATED, group)
            scores |= {f"{key}_before": found[key] for name in CALIBRATED if (key := f"{split}_{name}") in found}
    return task, scores


def autocast(model: nn.Module, precision: str) -> AbstractContextManager[None]:
    """The context in which the model's products, or its states, are in bf16, where the recipe has it."""
    if precision == "bf16_states":
        return states_in(torch.bfloat16)
    device = next(model.parameters()).device.type
    return torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16")


def products(precision: str) -> AbstractContextManager[None]:
    """The context in which float32 products, also a backward pass's, are rounded to TF32, where the recipe has it."""
    return float32_products("high" if precision == "tf32" else None)
