"""What a model predicts, and how good that is on each split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.kernels.execution import float32_products
from gpnn.nn.layers import states_in
from gpnn.storage.tensors import map_empty
from gpnn.train.loss import full_precision
from gpnn.train.metrics import METRICS
from gpnn.train.objective import SPLITS, Examples
from gpnn.train.task import Classification, Task

if TYPE_CHECKING:
    from gpnn.engine import Plan
    from gpnn.nn import MaskKey

CALIBRATED = ("log_loss", "calibration_error")  # what a calibration is to lower
FINITE_ROWS = 1 << 16  # that are looked at at one time


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
        x: features `[N, F]` on any device, or None.
        plan: the lowered schedule.
        precision: as of :class:`gpnn.train.Recipe`.
        rows: the nodes whose logits are wanted, distinct, `[n]`; None: all.
    """
    with torch.no_grad(), evaluating(model, precision):
        return full_precision(call_model(model, place_features(x, model, plan), plan, rows=rows))


@contextmanager
def evaluating(model: nn.Module, precision: str = "float32") -> Iterator[None]:
    """The model is in evaluation mode and computes in this precision; its mode is left as it was found."""
    training = model.training
    model.eval()
    try:
        with products(precision), autocast(model, precision):
            yield
    finally:
        model.train(training)


def predict_pieces(
    model: nn.Module, x: Tensor | None, plan: Plan, *, precision: str = "float32"
) -> Iterator[tuple[slice, Tensor]]:
    """The logits of all nodes, `[n, C]`, a range at a time, in order; a model without `score_pieces` gives all at once.

    Args:
        model: its mode is left as it was found.
        x: features on any device, or None.
        plan: the lowered schedule.
        precision: as of :class:`gpnn.train.Recipe`.
    """
    if not hasattr(model, "score_pieces"):
        logits = predict_logits(model, x, plan, precision=precision)
        yield slice(0, len(logits)), logits
        return
    with evaluating(model, precision):
        for nodes, scores in model.score_pieces(place_features(x, model, plan), plan):  # type: ignore[operator]
            yield nodes, full_precision(scores)


def map_logits(model: nn.Module, x: Tensor | None, plan: Plan, folder: Path, *, precision: str = "float32") -> Tensor:
    """The logits of every node, `[N, C]`, in a file in `folder` that is mapped and has no name; see predict_pieces."""
    out = None
    for nodes, scores in predict_pieces(model, x, plan, precision=precision):
        if out is None:
            out = map_empty((plan.num_nodes, scores.shape[1]), scores.dtype, folder)
        out[nodes] = scores
    assert out is not None
    return out


def all_finite(outputs: Tensor) -> bool:
    """Whether all outputs, `[N, C]`, are numbers; looked at a range of rows at a time."""
    return all(bool(rows.isfinite().all()) for rows in outputs.split(FINITE_ROWS))


def probabilities(logits: Tensor, *, multi_label: bool = False) -> Tensor:
    """Softmax over the classes, or the sigmoid of each label, `[N, C]`."""
    return Classification(logits.shape[1], multi_label).predict(logits)


def predict_outputs(model: nn.Module, x: Tensor | None, plan: Plan, *, precision: str = "float32") -> Tensor:
    """As :func:`predict_logits`, on the CPU.

    Raises:
        ValueError: when one is not a number, naming the node: a class with confidence NaN is no prediction.
    """
    return _checked(predict_logits(model, x, plan, precision=precision).cpu())


def output_pieces(
    model: nn.Module, x: Tensor | None, plan: Plan, *, precision: str = "float32"
) -> Iterator[tuple[slice, Tensor]]:
    """The same by :func:`predict_pieces`, a range of nodes at a time, in order."""
    for nodes, found in predict_pieces(model, x, plan, precision=precision):
        yield nodes, _checked(found.cpu(), nodes.start)


def _checked(outputs: Tensor, first: int = 0) -> Tensor:
    """The outputs of nodes from `first` on."""
    if not all_finite(outputs):
        node = first + int((~outputs.isfinite()).any(1).nonzero()[0])
        raise ValueError(f"Predictions must be numbers. Got nan at node {node}; try features of a smaller scale.")
    return outputs


def place_features(x: Tensor | None, model: nn.Module, plan: Plan | None) -> Tensor | None:
    """The features where :func:`features_device` says, or None."""
    return None if x is None else x.to(features_device(x, model, plan))


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
    outputs: Callable[[str], Tensor],
    task: Task,
    examples: Examples,
    group: ProcessGroup = SINGLE,
    *,
    shares: bool = False,
) -> tuple[Task, dict[str, float]]:
    """The task calibrated on the validation nodes, and the loss and metrics of each split; collective.

    Where probabilities were calibrated, there are also `{split}_log_loss_before` and
    `{split}_calibration_error_before`, those of the model itself, and where classes have offsets
    `{split}_accuracy_before`.

    Args:
        outputs: gives those of the nodes of a split, `[n, num_outputs]`.
        task: what they mean.
        examples: targets and nodes.
        group: the processes whose nodes count.
        shares: whether the shares of classes are calibrated, too, so that another class may be the most likely one.
    """
    if group.all_reduce(torch.tensor(examples.nodes["val"].numel())):
        found = outputs("val")
        task = task.calibrate(found, examples.target("val").to(found.device), group, shares=shares)
        del found
    scores: dict[str, float] = {}
    before, moved = task.uncalibrated(), isinstance(task, Classification) and bool(task.offsets)
    compared = (*CALIBRATED, task.watched) if moved else CALIBRATED
    for split in SPLITS:
        scores |= score_split(outputs(split), task, examples, split, group=group)
        if before is not None:
            plain = score_split(outputs(split), before, examples, split, compared, group)
            scores |= {f"{key}_before": plain[key] for name in compared if (key := f"{split}_{name}") in plain}
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
