"""resolve_target_scale: whether the numbers of a regression are learnt as they are or by their logarithms."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from gpnn.distributed import group_of
from gpnn.train.fit import fit
from gpnn.train.metrics import merit
from gpnn.train.objective import Examples
from gpnn.train.recipe import Recipe
from gpnn.train.task import Scale, task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan

EPOCHS = 60  # of a trial; which scale suits shows early


def resolve_target_scale(model: nn.Module, data: Data, plan: Plan, recipe: Recipe, seed: int = 0) -> Recipe:
    """The recipe with the scale of the targets chosen on the validation nodes where it is "auto" and may matter.

    It may matter where the training targets are positive and skewed (:meth:`gpnn.train.task.Task.scales`). A copy of
    the model is then trained for some epochs in each scale, and the one with the better validation metric, in the
    user's unit, is taken. All processes of a group must call it.

    Args:
        model: at its initial weights, which stay.
        data, plan, recipe, seed: as for :func:`gpnn.train.fit`.
    """
    examples = Examples.from_data(data)
    scales = task_of(data).scales(examples.target("train"), group_of(plan))
    if recipe.target_scale != "auto" or len(scales) < 2:
        return recipe
    merits: dict[Scale, float] = {}
    for scale in scales:
        trial = replace(recipe, target_scale=scale, epochs=min(EPOCHS, recipe.epochs), patience=0)
        metrics = fit(deepcopy(model), data, plan, recipe=trial, seed=seed).metrics
        found = metrics.get(f"val_{metrics.get('metric')}")
        merits[scale] = -math.inf if found is None or math.isnan(found) else merit(metrics["metric"], found)
    best: Scale = max(scales, key=merits.__getitem__)  # ties: the first
    return replace(recipe, target_scale=best)
