"""SOLVERS: models whose weights a solver of their own finds, instead of the steps of an optimiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from gpnn.nn import GPNN
from gpnn.nn.columns import ColumnModel
from gpnn.train.columns import ColumnSolver
from gpnn.train.examples import Examples
from gpnn.train.mini_batches import MiniBatches
from gpnn.train.recipe import Recipe
from gpnn.train.task import Task

if TYPE_CHECKING:
    from gpnn.engine import Plan


class Solver(Protocol):
    """Finds weights, one setting or some mini-batches per epoch; `fit` validates each and keeps the best.

    What is next follows from the history alone, so that a training goes on from a checkpoint.
    """

    def next(self, history: Sequence[dict[str, Any]]) -> Any | None:
        """The setting of the next epoch; None where nothing is left to try."""

    def step(self, history: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], float]:
        """Solve it into the model; the loss and the setting, for the history, and the norm of the gradient."""


SOLVERS: dict[type[nn.Module], Callable[..., Solver]] = {ColumnModel: ColumnSolver.of}


def make_solver(
    model: nn.Module,
    task: Task,
    examples: Examples,
    plan: Plan,
    recipe: Recipe,
    metric: str,
    optimizer: torch.optim.Optimizer,
    seed: int,
) -> Solver | None:
    """The solver of a model, or of a recipe with mini-batches; None where steps take the whole graph."""
    if recipe.batch:
        if not isinstance(model, GPNN):
            raise ValueError(f"`batch` needs a GPNN. Got {type(model).__name__}.")
        return MiniBatches.of(model, task, examples, plan, recipe, optimizer, seed)
    make = SOLVERS.get(type(model))
    return None if make is None else make(model, task, examples, plan, recipe, metric, seed)
