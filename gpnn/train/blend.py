"""A blend: predictions of several models, averaged with weights that the validation nodes choose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.train.evaluate import calibrated_scores
from gpnn.train.fit import FitResult
from gpnn.train.objective import Examples
from gpnn.train.task import Prediction, Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

DRAWS = 10  # of which weights are made
FOLDS = 5  # of the validation nodes; each is predicted with the weights of the others
LEAST = 0.05  # the smallest weight that is kept
BY_NODE = ("accuracy", "log_loss", "loss")  # metrics in which every node counts alike
FEWEST, MOST = 20, 5000  # validation nodes that weights follow

Outputs = tuple[Task, Tensor]


@dataclass(frozen=True)
class Blend:
    """What became of a blend of several trainings.

    Attributes:
        weights: of each training, the heaviest first, which sum to one; none where no blend was wanted.
        gain: by how much its loss on the validation nodes is below that of the best training, by cross-fitting; None:
            not tried.
    """

    weights: Mapping[str, float]
    gain: float | None = None

    def to_mapping(self) -> dict[str, Any]:
        """The blend as JSON holds it; weights are pairs, whose order counts."""
        return {"weights": [list(pair) for pair in self.weights.items()], "gain": self.gain}

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any]) -> Blend:
        """The blend that :meth:`to_mapping` gave.

        Raises:
            ValueError, TypeError or KeyError: when it is not one.
        """
        weights = {str(name): float(weight) for name, weight in value["weights"]}
        whole = not weights or math.isclose(sum(weights.values()), 1.0)
        if not whole or not all(0 < weight <= 1 for weight in weights.values()):
            raise ValueError
        return cls(weights, None if value["gain"] is None else float(value["gain"]))


def choose_blend(results: Iterable[tuple[str, FitResult]], data: Data, group: ProcessGroup = SINGLE) -> Blend:
    """The blend of trainings that the validation nodes choose; collective.

    Members are drawn one by one, with replacement, each time the one with which the mean of those drawn has the
    least loss (ensemble selection: Caruana et al. 2004); the weights are how often each was drawn. That is done without
    each fifth of the validation nodes in turn, and the weights are the mean of the five, so that one node decides
    little. The gain is that of predicting each fifth with the weights found without it.

    Args:
        results: name and result of each training, the best one first; each is freed before the next is requested.
        data: labels and masks of this process's nodes.
        group: the processes whose nodes count.
    """
    members, target = _pool(results, data, group)
    best = next(iter(members), None)
    if best is None or len(members) < 2 or len(target) < FEWEST:
        return Blend({} if best is None else {best: 1.0})
    weights, gain = _cross_fit(list(members.values()), target)
    shares = {name: weight for name, weight in zip(members, weights) if weight >= LEAST}
    total = sum(shares.values())
    return Blend({name: shares[name] / total for name in sorted(shares, key=lambda each: -shares[each])}, gain)


def keeps_shares(metric: str, class_weight: Any) -> bool:
    """Whether classes should be predicted as often as they are: not where a metric or weights count rare ones more.

    >>> keeps_shares("accuracy", "none"), keeps_shares("accuracy", "balanced"), keeps_shares("macro_f1", "none")
    (True, False, False)
    """
    return metric in BY_NODE and isinstance(class_weight, str) and class_weight == "none"


def blend_predictions(
    predictions: Sequence[Prediction], data: Data, group: ProcessGroup = SINGLE, *, shares: bool = False
) -> tuple[Task, Tensor, dict[str, float]]:
    """The task and outputs of a blend, calibrated as a whole, and its metrics on each split; collective.

    Args:
        predictions: of the members.
        data: labels and masks of this process's nodes.
        group: the processes whose nodes count.
        shares: whether the shares of classes are calibrated, too.
    """
    task = _task_of([each.task for each in predictions])
    outputs = task.combine(predictions)
    examples = Examples.from_data(data, outputs.device)
    own = lambda split: outputs[examples.nodes[split]]  # noqa: E731
    task, scores = calibrated_scores(own, task, examples, group, shares=shares)
    return task, outputs, scores


def _task_of(tasks: Sequence[Task]) -> Task:
    """The task in which predictions of all these are averaged."""
    return tasks[0].blended(tasks[1:])


def _pool(
    results: Iterable[tuple[str, FitResult]], data: Data, group: ProcessGroup
) -> tuple[dict[str, Outputs], Tensor]:
    """Task and outputs of each training for the validation nodes of all processes, and their targets.

    Variances are scaled to the errors, so that the weights of numbers follow their means. Nodes are ordered by the
    outputs, so that folds do not depend on the order of nodes.
    """
    examples = Examples.from_data(data)
    found: dict[str, Outputs] = {}
    for name, result in results:
        task, logits = result.task, result.logits
        if task is None or logits is None:
            continue
        own = logits[examples.nodes["val"].to(logits.device)].cpu()
        found[name] = task, torch.cat(group.all_gather(own))
    target = torch.cat(group.all_gather(examples.target("val")))
    if not found:
        return found, target
    order = torch.stack([each.double().sum(1) + each[:, 0] for _, each in found.values()]).sum(0)
    order = order.sort(stable=True).indices
    order = order[:: -(-len(order) // MOST) or 1]
    target = target[order]
    return {name: (task, task.scale_variance(values[order], target)) for name, (task, values) in found.items()}, target


def _cross_fit(members: Sequence[Outputs], target: Tensor) -> tuple[list[float], float]:
    """The mean weights over the folds, and how much lower the loss of all folds is than the first member's."""
    fold, task = torch.arange(len(target)) % FOLDS, _task_of([each for each, _ in members])
    total, outputs = [0.0] * len(members), torch.empty_like(members[0][1])
    for each in range(FOLDS):
        held, others = fold == each, fold != each
        drawn = _draw([(own, values[others]) for own, values in members], target[others])
        parts = [Prediction(count / DRAWS, own, values[held]) for count, (own, values) in zip(drawn, members) if count]
        outputs[held] = task.combine(parts)
        total = [sum_ + count / DRAWS / FOLDS for sum_, count in zip(total, drawn)]
    alone = task.combine([Prediction(1.0, *members[0])])
    return total, float(task.blend_loss(alone, target)) - float(task.blend_loss(outputs, target))


def _draw(members: Sequence[Outputs], target: Tensor) -> list[int]:
    """How often each member is drawn."""
    task, counts = _task_of([each for each, _ in members]), [0] * len(members)
    mixed: Tensor | None = None
    for number in range(DRAWS):
        share = 1 / (number + 1)
        kept = [] if mixed is None else [Prediction(1 - share, task, mixed)]
        tried = [task.combine([*kept, Prediction(share, *member)]) for member in members]
        losses = [float(task.blend_loss(each, target)) for each in tried]
        best = losses.index(min(losses))
        counts[best] += 1
        mixed = tried[best]
    return counts
