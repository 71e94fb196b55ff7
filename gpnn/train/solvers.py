"""SOLVERS: what finds weights instead of the steps over the whole graph, of models of their own or by mini-batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from gpnn.distributed import SINGLE
from gpnn.nn import GPNN, MaskKey
from gpnn.nn.column_model import ColumnModel
from gpnn.nn.layers import mark_dense
from gpnn.nn.sampled_rows import SampledRows
from gpnn.train.column_solver import ColumnSolver
from gpnn.train.loss import Weighing
from gpnn.train.objective import Examples
from gpnn.train.optimizer import clip_gradients
from gpnn.train.recipe import Recipe
from gpnn.train.self_training import UNKNOWN, WEIGHT
from gpnn.train.task import Task

if TYPE_CHECKING:
    from gpnn.engine import Plan


class Solver(Protocol):
    """Finds weights, one setting or some mini-batches per epoch; `fit` validates each and keeps the best.

    What is next follows from the history alone, so that a training can be resumed.
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
        assert isinstance(model, GPNN)
        return MiniBatches.of(model, task, examples, plan, recipe, optimizer, seed)
    make = SOLVERS.get(type(model))
    return None if make is None else make(model, task, examples, plan, recipe, metric, seed)


STEPS = 10  # of an epoch
SURE = 0.75  # the most that a mask of confidence asks for


@dataclass(frozen=True, eq=False)
class MiniBatches:
    """Random propagation in mini-batches (GRAND+, Feng et al. 2022); a :class:`gpnn.train.solvers.Solver`.

    A step draws some training nodes and `recipe.batch` others, propagates their features `recipe.passes` times along
    rows whose entries are dropped at random, and follows the gradient of the supervised loss plus λ times the passes'
    disagreement over the others, where their average is surer than twice chance. λ rises over the recipe's warm-up.
    Those of the others that have a predicted label learn it, too. Evaluation propagates over the whole graph.

    Attributes:
        model: it propagates features before it encodes them (`predict` "features").
        task: what is learnt.
        examples: targets and nodes.
        rows: of the propagation matrix.
        recipe: batch, passes, consistency, ….
        optimizer: whose state checkpoints hold.
        class_weight: `[C]` or None.
        seed: of batches and masks.
        labels: predicted classes of other nodes, `[N]`, −1 where there is none; None: there are none at all.
    """

    model: GPNN
    task: Task
    examples: Examples
    rows: SampledRows
    recipe: Recipe
    optimizer: torch.optim.Optimizer
    class_weight: Tensor | None
    seed: int
    labels: Tensor | None = None

    @classmethod
    def of(
        cls,
        model: GPNN,
        task: Task,
        examples: Examples,
        plan: Plan,
        recipe: Recipe,
        optimizer: torch.optim.Optimizer,
        seed: int,
    ) -> MiniBatches:
        """The mini-batches of a training."""
        assert examples.x is not None
        update: Any = getattr(model.cell, "update", None)
        alpha = float(getattr(update, "alpha", 0.0))
        rows = SampledRows.of(plan.schedule.graph, examples.x, order=plan.num_rounds, alpha=alpha)
        outputs = task.num_outputs
        recipe = (
            recipe if recipe.consistency_threshold else replace(recipe, consistency_threshold=min(SURE, 2 / outputs))
        )
        weight = task.class_weight(recipe.class_weight, examples.target("train"), SINGLE)
        return cls(model, task, examples, rows, recipe, optimizer, weight, seed)

    def next(self, history: Sequence[dict[str, Any]]) -> int:
        """The number of the next epoch: the recipe says when to end."""
        return len(history) + 1

    def step(self, history: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], float]:
        """The steps of one epoch; their mean loss, and the largest norm of a gradient."""
        first = len(history) * STEPS
        before = (self.recipe.generation(len(history) + 1)[1] - 1) * STEPS  # of the generation
        self.model.train()
        found = [self._step(first + each, self._ramp(before + each)) for each in range(STEPS)]
        losses, norms = zip(*found)
        return {"loss": float(np.mean(losses))}, max(norms)

    def _step(self, number: int, ramp: float) -> tuple[float, float]:
        """One step of the optimiser, unless loss or gradient is not finite; the loss and the gradient's norm."""
        random = np.random.default_rng((self.seed, number))
        labelled, others = self._draw(random)
        self.optimizer.zero_grad(set_to_none=True)
        passes = [self._scores(np.append(labelled, others), number, each, random) for each in range(self.recipe.passes)]
        loss = self._supervised(passes, torch.from_numpy(labelled), torch.from_numpy(others))
        if self.recipe.consistency and len(others):
            apart = self.task.disagreement([each[len(labelled) :] for each in passes], self.recipe)
            loss = loss + self.recipe.consistency * ramp * apart
        loss.backward()
        value, norm = float(loss.detach()), clip_gradients(self.model, self.recipe.clip, SINGLE)
        if math.isfinite(value + norm):
            self.optimizer.step()
        return value, norm

    def _ramp(self, number: int) -> float:
        """The share of λ in a step, counted from 0 in each generation."""
        warmup = self.recipe.consistency_warmup * STEPS
        return min(1.0, (number + 1) / warmup) if warmup else 1.0

    def _supervised(self, passes: Sequence[Tensor], labelled: Tensor, others: Tensor) -> Tensor:
        """The mean loss of the labelled nodes, beside that of the predicted labels of other nodes."""
        weight, size = self.examples.weight, len(labelled)
        weight = None if weight is None else weight[labelled]
        loss = self._mean_loss([each[:size] for each in passes], self.examples.y[labelled], weight)
        labels = None if self.labels is None else self.labels[others]
        if labels is None or not bool((taught := labels != UNKNOWN).any()):
            return loss
        predicted = self._mean_loss([each[size:][taught] for each in passes], labels[taught])
        return (loss + WEIGHT * predicted) / (1 + WEIGHT)

    def _mean_loss(self, passes: Sequence[Tensor], target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The supervised loss, averaged over the passes."""
        weighing: Weighing = {"class_weight": self.class_weight, "label_smoothing": self.recipe.label_smoothing}
        weighing["weight"] = weight
        return torch.stack([self.task.loss(each, target, **weighing) for each in passes]).mean()

    def _draw(self, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Some training nodes, and some of all others."""
        train, others = self._nodes
        labelled = random.choice(train, min(self.recipe.labelled, len(train)), replace=False)
        return labelled, random.choice(others, min(self.recipe.batch, len(others)), replace=False, shuffle=False)

    @cached_property
    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """The training nodes, and all others."""
        train = self.examples.nodes["train"].cpu().numpy()
        return train, np.setdiff1d(np.arange(len(self.examples.y)), train)

    def _scores(self, nodes: np.ndarray, number: int, each: int, random: np.random.Generator) -> Tensor:
        sparse = self.model.norm == "none" and self.rows.stays_sparse
        like = self.model.head.weights[0]
        spread = self.rows.draw(nodes, self.model.drop_node, random, dense=not sparse).to(like)
        key = MaskKey(self.seed, number, each, torch.from_numpy(nodes).to(like.device))
        return self.model.score_spread(spread if sparse else mark_dense(spread), key)
