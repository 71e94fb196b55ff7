"""ColumnSolver: the weights of a ColumnModel, one setting per epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.distributed import group_of
from gpnn.kernels import Operator
from gpnn.nn.column_fitted import Columns
from gpnn.nn.column_model import ColumnModel, to_scipy
from gpnn.nn.layers import feature_operator
from gpnn.train.column_boosting import Boosted, boost, join
from gpnn.train.column_linear import LinearProblem
from gpnn.train.column_settings import FIRST, FIRST_SPARSE, FIRST_UNSCALED, Setting, next_setting
from gpnn.train.objective import Examples
from gpnn.train.recipe import Recipe
from gpnn.train.regression import Regression
from gpnn.train.task import Task

if TYPE_CHECKING:
    from gpnn.engine import Plan

Record = dict[str, Any]
MOST_PER_LABEL = 8  # sparse columns, up to which labels tell which of the rare ones matter


@dataclass(frozen=True, eq=False)
class ColumnSolver:
    """Solves for the weights of a model, once per setting; see :class:`gpnn.train.solvers.Solver`.

    Nothing but the training labels reaches the columns and the weights. Validation labels choose how many of a
    setting's trees are kept and, in `fit`, the setting.

    Attributes:
        model: its weights are replaced.
        task: what is learnt, with what the training targets tell of it.
        examples: targets and nodes.
        recipe: class weights and label smoothing.
        metric: that selects.
        seed: of random projections and of trees.
        columns: of every node.
        problem: the ridge regression.
        own_problem: the same of the node's own features.
        class_weight: `[C]` or None.
        scale: of each dense column, `[D]`.
        block_scale: of the features, and of their means over neighbours, `[R + 1]`.
        first: the strength of the ridge that each kind of columns is tried with.
    """

    model: ColumnModel
    task: Task
    examples: Examples
    recipe: Recipe
    metric: str
    seed: int
    columns: Columns
    problem: LinearProblem
    own_problem: LinearProblem
    class_weight: Tensor | None
    scale: Tensor
    block_scale: Tensor
    first: float

    @classmethod
    @torch.no_grad()
    def of(
        cls, model: ColumnModel, task: Task, examples: Examples, plan: Plan, recipe: Recipe, metric: str, seed: int
    ) -> ColumnSolver:
        """The solver of a training; the model gets the training labels, and the means and scales of its columns.

        Many sparse columns are divided by the square root of their deviation, halfway between as they are, where
        frequent ones hide what rare ones tell, and standardised, where rare ones drown the others. Where labels are far
        fewer than they are (`MOST_PER_LABEL`) they stay as they are: of rare ones next to nothing is then known. Beside
        such blocks, each of size one, degrees, labels and structure are blocks of their own, so that no few of them
        outweigh the rest.
        """
        nodes, target = examples.nodes["train"], examples.target("train")
        if model.num_labels:
            model.set_labels(nodes, task.standardise(target) if isinstance(task, Regression) else target)
        linear, first = model.linear, FIRST
        if model.many and examples.x is not None:
            operator = feature_operator(examples.x)
            x_mean, x_scale = _moments(examples.x) if operator is None else _sparse_moments(operator)
            linear.get_buffer("x_scale").copy_(x_scale)
            if operator is None:
                linear.get_buffer("x_mean").copy_(x_mean)
            elif len(nodes) * MOST_PER_LABEL < model.in_channels:
                linear.get_buffer("x_scale").copy_(x_scale > 0)
                first = FIRST_UNSCALED
            else:
                linear.get_buffer("x_scale").sqrt_()
                first = FIRST_SPARSE
            if model.num_selected:
                widest = torch.where(x_scale > 0, 1 / x_scale, 0.0).sort(descending=True, stable=True).indices
                model.get_buffer("selected").copy_(widest[: model.num_selected])
        columns = model.columns(examples.x, plan)
        mean, scale = _moments(columns.dense)
        if model.many:
            for block in model.blocks:
                scale[block] = _block_scale(scale[block])
        linear.get_buffer("mean").copy_(mean)
        problem = LinearProblem.of(linear, columns, nodes)
        own = LinearProblem.of(linear, replace(columns, means=()), nodes)
        block_scale = torch.ones_like(linear.get_buffer("block_scale"))
        if columns.x is not None:
            sizes = problem.block_sizes(linear, seed)
            block_scale = torch.where(sizes > 0, 1 / sizes, 0.0)
        weight = task.class_weight(recipe.class_weight, target, group_of(plan))
        return cls(
            model, task, examples, recipe, metric, seed, columns, problem, own, weight, scale, block_scale, first
        )

    def next(self, history: Sequence[Record]) -> Setting | None:
        """The setting of the next epoch; None where nothing is left to try."""
        validated = len(self.examples.nodes["val"]) > 0
        kinds = self.model.kinds[::-1]  # from few columns to many: each starts from the weights of the one before
        return next_setting(
            history, self.metric, kinds=kinds, solvers=self.model.solvers, first=self.first, validated=validated
        )

    def step(self, history: Sequence[Record]) -> tuple[Record, float]:
        """Solve the next setting into the model; the setting with the training loss, and the gradient's norm."""
        setting = self.next(history)
        assert setting is not None
        loss, norm = self.solve(setting)
        return {"loss": loss, **setting.to_record()}, norm

    def solve(self, setting: Setting) -> tuple[float, float]:
        """Put the weights of a setting into the model; the training loss, and the norm of the gradient."""
        return self._boost(setting) if setting.solver == "trees" else self._regress(setting)

    def _regress(self, setting: Setting) -> tuple[float, float]:
        """The ridge regression of a setting; its training loss, and the norm of the gradient."""
        linear, nodes = self.model.linear, self.examples.nodes["train"]
        self.model.trees.clear()
        kept = self.model.kept(setting.columns)
        kept[: self.model.num_for_trees] = False
        with torch.no_grad():
            linear.get_buffer("scale").copy_(self.scale * kept.to(self.scale))
            linear.get_buffer("block_scale").copy_(self.block_scale)
            if setting.columns in ("own", "labels"):
                linear.get_buffer("block_scale")[int(setting.columns == "own") :] = 0
        problem = self.own_problem if setting.columns == "own" else self.problem
        loss, norm = problem.solve(linear, self._loss, setting.strength)
        if isinstance(self.task, Regression):
            self._set_variance(linear(self.columns)[nodes])
        return loss, norm

    def _boost(self, setting: Setting) -> tuple[float, float]:
        """The trees of a setting, as many as the validation nodes are best with; the training loss and zero."""
        chosen = self.model.kept(setting.columns).nonzero().flatten()
        dense = self.columns.dense[:, chosen].cpu().numpy()
        found = join([self._boost_target(dense, *each) for each in self._targets()])
        found.arrays["feature"].copy_(chosen.cpu()[found.arrays["feature"].long()])
        linear = self.model.linear
        with torch.no_grad():
            linear.weight.zero_()
            linear.dense_weight.zero_()
            linear.bias.copy_(found.baseline)
        self.model.trees.store(found.arrays, found.output)
        outputs = self.model.scores(self.columns)[self.examples.nodes["train"]].detach()
        if isinstance(self.task, Regression):
            self._set_variance(outputs)
        return float(self._loss(outputs)), 0.0

    def _targets(self) -> list[tuple[int | None, np.ndarray]]:
        """What trees are grown for: the classes or the number at once, or each label alone, with its output."""
        y = self.examples.y
        if isinstance(self.task, Regression):
            return [(None, self.task.standardise(y).cpu().numpy())]
        if y.dim() == 1:
            return [(None, y.cpu().numpy())]
        return [(label, y[:, label].long().cpu().numpy()) for label in range(y.shape[1])]

    def _boost_target(self, dense: np.ndarray, label: int | None, target: np.ndarray) -> Boosted:
        """The trees of one target `[N]`, cut after the iteration with the least validation loss."""
        train, val = (self.examples.nodes[split].cpu().numpy() for split in ("train", "val"))
        weight = None
        if self.class_weight is not None:
            each = self.class_weight if label is None else torch.stack([torch.ones(()), self.class_weight[label].cpu()])
            weight = each.cpu().numpy()[target[train]]
        if self.examples.weight is not None:
            own = self.examples.weight[train].cpu().numpy()
            weight = own if weight is None else own * weight
        found, staged = boost(
            dense[train],
            target[train],
            num_outputs=self.model.out_channels if label is None else 2,
            iterations=self.model.iterations,
            num_leaves=self.model.num_leaves,
            weight=weight,
            share=1.0 if isinstance(self.task, Regression) and not self.model.many else 0.5,
            seed=self.seed,
        )
        if len(val):
            losses = [self._validation_loss(outputs, target[val]) for outputs in staged(dense[val])]
            found = found.first(int(np.argmin(losses)) + 1)
        return found if label is None else found.moved(label, self.model.out_channels)

    def _validation_loss(self, outputs: Tensor, target: np.ndarray) -> float:
        truth = torch.from_numpy(target)
        if isinstance(self.task, Regression):
            return float((truth - outputs[:, 0]).square().mean())
        return float(torch.nn.functional.cross_entropy(outputs, truth))

    def _loss(self, scores: Tensor) -> Tensor:
        """The training loss of the scores of the training nodes, `[M, C]`: what is made small."""
        target, smoothing = self.examples.target("train"), self.recipe.label_smoothing
        weight = self.examples.train_weight()
        if isinstance(self.task, Regression):
            error = (self.task.standardise(target).to(scores) - scores[:, 0]).square()
            return error.mean() / 2 if weight is None else weight.to(error) @ error / weight.sum().to(error) / 2
        return self.task.loss(scores, target, class_weight=self.class_weight, label_smoothing=smoothing, weight=weight)

    @torch.no_grad()
    def _set_variance(self, outputs: Tensor) -> None:
        """The same variance for all nodes, that of the training errors."""
        error = 2 * self._loss(outputs)
        self.model.linear.bias[1] = error.clamp(min=1e-4).log()


def _sparse_moments(x: Operator) -> tuple[Tensor, Tensor]:
    """The same of columns that are mostly zero."""
    matrix = to_scipy(x)
    mean, square = (torch.from_numpy(each.sum(0)) / x.shape[0] for each in (matrix, matrix.multiply(matrix)))
    return _scaled(mean, (square - mean**2).clamp(min=0).sqrt(), torch.float32)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and 1 / deviation of each column, `[D]`; the latter is zero where it is constant."""
    return _scaled(x.double().mean(0), x.double().std(0, correction=0), x.dtype)


def _block_scale(scale: Tensor) -> Tensor:
    """Of the columns of a block with these 1 / deviation, what makes their squares one in sum, the rare ones rarer."""
    deviation = torch.where(scale > 0, 1 / scale, 0.0)
    return scale.sqrt() / deviation.sum().clamp(min=1e-30).sqrt()


def _scaled(mean: Tensor, deviation: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    constant = deviation <= 1e-6 * mean.abs().clamp(min=1e-6)
    return mean.to(dtype), torch.where(constant, 0.0, 1 / deviation.clamp(min=1e-30)).to(dtype)
