"""Objective: the loss of one epoch, from the logits of its passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.train.loss import balanced_class_weight, consistency_loss, supervised_loss, whole_weight, yes_or_no
from gpnn.train.recipe import Recipe
from gpnn.train.task import Task


@dataclass(frozen=True, eq=False)
class Objective:
    """The supervised loss averaged over the passes, plus λ times their disagreement, λ ramped up.

    Attributes:
        task: targets and nodes.
        recipe: class weights, smoothing, λ, temperature, ….
        class_weight: `[C]` or None.
        consistency_nodes: nodes that the disagreement is taken over, or None: all.
        group: the processes among which the nodes are shared.
        weight: what the supervised loss is divided by: :func:`gpnn.train.loss.whole_weight`.
    """

    task: Task
    recipe: Recipe
    class_weight: Tensor | None
    consistency_nodes: Tensor | None
    group: ProcessGroup = SINGLE
    weight: Tensor | None = None

    @classmethod
    def of(cls, task: Task, recipe: Recipe, group: ProcessGroup = SINGLE) -> Objective:
        """The objective of a recipe on a task: this process's share, which sum to the whole.

        Raises:
            ValueError: when the class weights do not fit the classes.
        """
        class_weight = _class_weight(task, recipe, group)
        weight = whole_weight(task.target("train"), task.num_classes, class_weight, group=group)
        return cls(task, recipe, class_weight, _consistency_nodes(task, recipe), group, weight)

    def loss(self, logits: Sequence[Tensor], epoch: int) -> Tensor:
        """The loss of epoch `epoch` (from 1), given each pass's logits `[N, C]`."""
        recipe, nodes, target = self.recipe, self.task.nodes["train"], self.task.target("train")
        supervised = [
            supervised_loss(
                each[nodes],
                target,
                class_weight=self.class_weight,
                label_smoothing=recipe.label_smoothing,
                total=self.weight,
            )
            for each in logits
        ]
        loss = torch.stack(supervised).mean()
        if recipe.consistency:
            loss = loss + recipe.consistency * self._ramp(epoch) * self._disagreement(logits)
        return loss

    def _ramp(self, epoch: int) -> float:
        return min(1.0, epoch / self.recipe.consistency_warmup) if self.recipe.consistency_warmup else 1.0

    def _disagreement(self, logits: Sequence[Tensor]) -> Tensor:
        if self.consistency_nodes is not None:
            logits = [each[self.consistency_nodes] for each in logits]
        if self.task.multi_label:
            logits = [yes_or_no(each) for each in logits]
        sharpness, threshold = self.recipe.temperature, self.recipe.consistency_threshold
        return consistency_loss(logits, temperature=sharpness, threshold=threshold, group=self.group)


def _class_weight(task: Task, recipe: Recipe, group: ProcessGroup) -> Tensor | None:
    if recipe.class_weight == "none":
        return None
    target = task.target("train")
    if recipe.class_weight == "balanced":
        return balanced_class_weight(target, task.num_classes, group)
    if len(recipe.class_weight) != task.num_classes:
        raise ValueError(
            f"`class_weight` must have one weight for each of the {task.num_classes} classes. "
            f"Got {len(recipe.class_weight)}."
        )
    return torch.tensor(recipe.class_weight, device=target.device)


def _consistency_nodes(task: Task, recipe: Recipe) -> Tensor | None:
    if not recipe.consistency or recipe.consistency_on == "all":
        return None
    outside = torch.ones(task.y.shape[0], dtype=torch.bool, device=task.y.device)
    outside[task.nodes["train"]] = False
    return outside.nonzero().flatten()
