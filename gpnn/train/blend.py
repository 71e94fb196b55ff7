"""A blend: predictions of several models, averaged with weights that the validation nodes choose."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.train.evaluate import calibrated_scores
from gpnn.train.fit import FitResult
from gpnn.train.metrics import METRICS, merit
from gpnn.train.objective import Examples
from gpnn.train.task import Prediction, Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

STEPS = 10  # weights are tenths
FOLDS = 5  # of the validation nodes; each is predicted with the weights of the others
GROUPS = 20  # of the jackknife that gives the gain its standard error
FEWEST, MOST = 20, 20_000  # validation nodes that weights follow

Pooled = tuple[tuple[tuple[Task, Tensor], ...], Tensor]


@dataclass(frozen=True)
class Blend:
    """What became of a blend of several trainings.

    Attributes:
        weights: of each training, the best one first, which sum to one; none where the best one alone was kept.
        gain: of the metric by cross-fitting on the validation nodes, turned so that higher is better; None: not tried.
        error: its standard error.
    """

    weights: Mapping[str, float]
    gain: float | None = None
    error: float | None = None

    def to_mapping(self) -> dict[str, Any]:
        """The blend as JSON holds it; weights are pairs, whose order counts."""
        return {"weights": [list(pair) for pair in self.weights.items()], "gain": self.gain, "error": self.error}

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any]) -> Blend:
        """The blend that :meth:`to_mapping` gave.

        Raises:
            ValueError, TypeError or KeyError: when it is not one.
        """
        weights = {str(name): float(weight) for name, weight in value["weights"]}
        numbers = [None if value[name] is None else float(value[name]) for name in ("gain", "error")]
        whole = not weights or math.isclose(sum(weights.values()), 1.0)
        if not whole or not all(0 < weight < 1 for weight in weights.values()):
            raise ValueError
        return cls(weights, *numbers)


def choose_blend(results: Mapping[str, FitResult], data: Data, metric: str, group: ProcessGroup = SINGLE) -> Blend:
    """The blend of trainings that the validation nodes choose, or the first alone; collective.

    Each fifth of the validation nodes is predicted with the weights of the others. A blend is kept where its metric
    there is better than the first one's by more than the standard error of the difference (a jackknife over groups of
    nodes), so that weights fitted to chance do not count.

    Args:
        results: of each training, the best one first.
        data: labels and masks of this process's nodes.
        metric: what ranks.
        group: the processes whose nodes count.
    """
    first = next(iter(results.values()))
    names = [name for name, each in results.items() if _blends(each, first)]
    if len(names) < 2 or first.logits is None:
        return Blend({})
    examples = Examples.from_data(data, first.logits.device)
    members, target = _pool([results[name] for name in names], examples, group)
    if len(target) < FEWEST:
        return Blend({})
    value = _value_of(metric, target)
    alone, blended = _combine(members, _unit(len(members))), _cross_fit(members, target)
    fold = torch.arange(len(target), device=target.device)

    def gain(kept: Tensor) -> float:
        return value(blended, members[0][0], kept) - value(alone, members[0][0], kept)

    parts = torch.tensor([gain(fold % GROUPS != each) for each in range(GROUPS)], dtype=torch.float64)
    error = float(((parts - parts.mean()).square().sum() * (GROUPS - 1) / GROUPS).sqrt())
    found, weights = gain(fold >= 0), _fit_weights(members, target)
    kept = {name: weight / STEPS for name, weight in zip(names, weights) if weight}
    clear = found > error and len(kept) > 1
    return Blend(kept if clear else {}, *(each if math.isfinite(each) else None for each in (found, error)))


def blend_predictions(
    predictions: Sequence[Prediction], data: Data, group: ProcessGroup = SINGLE
) -> tuple[Task, Tensor, dict[str, float]]:
    """The task and outputs of a blend, calibrated as a whole, and its metrics on each split; collective."""
    outputs = _fresh(predictions[0].task).combine(predictions)
    examples = Examples.from_data(data, outputs.device)
    task, scores = calibrated_scores(
        lambda split: outputs[examples.nodes[split]], _fresh(predictions[0].task), examples, group
    )
    return task, outputs, scores


def _blends(result: FitResult, first: FitResult) -> bool:
    """Whether a training has predictions that can be averaged with the first one's."""
    return result.logits is not None and None not in (result.task, first.task) and result.task.joins(first.task)  # type: ignore[union-attr,arg-type]


def _fresh(task: Task) -> Task:
    return task.uncalibrated() or task


def _pool(results: Sequence[FitResult], examples: Examples, group: ProcessGroup) -> Pooled:
    """Task and outputs of each training for the validation nodes of all processes, and their targets.

    They are ordered by the outputs, so that folds do not depend on the order of nodes.
    """
    nodes = examples.nodes["val"]
    outputs = [torch.cat(group.all_gather(each.logits[nodes])) for each in results if each.logits is not None]
    order = torch.stack([each.double().sum(1) + each[:, 0] for each in outputs]).sum(0).sort(stable=True).indices
    order = order[:: -(-len(order) // MOST) or 1]
    members = tuple((each.task, values[order]) for each, values in zip(results, outputs) if each.task is not None)
    return members, torch.cat(group.all_gather(examples.target("val")))[order]


def _combine(members: Sequence[tuple[Task, Tensor]], weights: Sequence[int]) -> Tensor:
    parts = [Prediction(weight / STEPS, *member) for weight, member in zip(weights, members) if weight]
    return _fresh(members[0][0]).combine(parts)


def _unit(number: int) -> list[int]:
    return [STEPS, *[0] * (number - 1)]


def _fit_weights(members: Sequence[tuple[Task, Tensor]], target: Tensor) -> list[int]:
    """Tenths: one moves from a member to another as long as the loss falls, the first one keeping one at least."""
    task = _fresh(members[0][0])
    weights = _unit(len(members))
    least = float(task.loss(_combine(members, weights), target))
    while True:
        moves = [
            [weight + (place == to) - (place == of) for place, weight in enumerate(weights)]
            for of, weight in enumerate(weights)
            for to in range(len(weights))
            if of != to and weight > (of == 0)
        ]
        losses = [float(task.loss(_combine(members, move), target)) for move in moves]
        if not losses or not min(losses) < least:
            return weights
        least = min(losses)
        weights = moves[losses.index(least)]


def _cross_fit(members: Sequence[tuple[Task, Tensor]], target: Tensor) -> Tensor:
    """Outputs of the nodes of each fold, with the weights of the others."""
    fold = torch.arange(len(target), device=target.device) % FOLDS
    found = _combine(members, _unit(len(members)))
    for each in range(FOLDS):
        held, others = fold == each, fold != each
        weights = _fit_weights([(task, values[others]) for task, values in members], target[others])
        found[held] = _combine([(task, values[held]) for task, values in members], weights)
    return found


def _value_of(metric: str, target: Tensor) -> Callable[[Tensor, Task, Tensor], float]:
    """The metric of some of the nodes, turned so that higher is better."""

    def value(outputs: Tensor, task: Task, kept: Tensor) -> float:
        task = _fresh(task)
        if metric == "loss":
            return -float(task.loss(outputs[kept], target[kept]))
        return merit(metric, METRICS[metric](task.predict(outputs[kept]), target[kept]))

    return value
