"""SOLVERS: models whose weights a solver of their own finds, instead of the steps of an optimiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from torch import nn

from gpnn.nn.columns import ColumnModel
from gpnn.train.columns import ColumnSolver
from gpnn.train.examples import Examples
from gpnn.train.recipe import Recipe
from gpnn.train.task import Task

if TYPE_CHECKING:
    from gpnn.engine import Plan


class Solver(Protocol):
    """Finds weights, one setting per epoch; `fit` validates each and keeps the best.

    What is next follows from the history alone, so that a training goes on from a checkpoint.
    """

    def next(self, history: Sequence[dict[str, Any]]) -> Any | None:
        """The setting of the next epoch; None where nothing is left to try."""

    def step(self, history: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], float]:
        """Solve it into the model; the loss and the setting, for the history, and the norm of the gradient."""


SOLVERS: dict[type[nn.Module], Callable[..., Solver]] = {ColumnModel: ColumnSolver.of}


def make_solver(
    model: nn.Module, task: Task, examples: Examples, plan: Plan, recipe: Recipe, metric: str, seed: int
) -> Solver | None:
    """The solver of a model; None where it is trained by gradient steps."""
    make = SOLVERS.get(type(model))
    return None if make is None else make(model, task, examples, plan, recipe, metric, seed)
