"""check_recipe: whether a model can be trained as a recipe says, on data with these labels, before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from gpnn.data.splits import split_mask
from gpnn.distributed import SINGLE
from gpnn.nn import GPNN
from gpnn.train.recipe import Recipe, resolve_recipe
from gpnn.train.solvers import SOLVERS
from gpnn.train.task import Classification, task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data


def check_recipe(recipe: Recipe, model: nn.Module, data: Data, num_processes: int = 1) -> None:
    """Raise ValueError where the model cannot be trained as the recipe says.

    Args:
        recipe: how it would be trained.
        model: of any kind.
        data: features and labels.
        num_processes: that share the nodes.
    """
    task, recipe = task_of(data), resolve_recipe(recipe, data)
    if recipe.class_weight != "none":
        task.class_weight(recipe.class_weight, data.y[split_mask(data, "train")], SINGLE)
    if recipe.batch:
        _check_batch(model, data, num_processes)
    if not recipe.self_training:
        return
    if not isinstance(task, Classification) or task.multi_label:
        raise ValueError(f"`self_training` needs one class per node. Got {task.summary}.")
    if type(model) in SOLVERS:
        raise ValueError("`self_training` needs a model that learns by gradients. Got one with a solver of its own.")
    if num_processes > 1:
        raise ValueError(f"`self_training` needs all nodes in one process. Got {num_processes} processes.")


def _check_batch(model: nn.Module, data: Data, num_processes: int) -> None:
    if not isinstance(model, GPNN):
        raise ValueError(f"`batch` needs a GPNN. Got {type(model).__name__}.")
    if model.predict != "features" or data.get("x") is None or num_processes > 1:
        raise ValueError("`batch` needs a model with `predict` 'features', features, and one process. Got another.")
