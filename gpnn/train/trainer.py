"""Trainer: model, optimiser and progress of one training; its epochs, validations, checkpoints and final metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gpnn.distributed import TRAFFIC, ProcessGroup, ShardedPlan, group_of
from gpnn.distributed.checkpoint import load as load_checkpoint
from gpnn.distributed.checkpoint import save as save_checkpoint
from gpnn.nn import MaskKey
from gpnn.run.checkpoint import Progress, copy_weights
from gpnn.train.check_recipe import check_recipe
from gpnn.train.evaluate import (
    all_finite,
    autocast,
    calibrated_scores,
    call_model,
    features_device,
    map_logits,
    predict_logits,
    products,
    score_split,
)
from gpnn.train.loss import full_precision
from gpnn.train.metrics import merit
from gpnn.train.notes import divergence
from gpnn.train.objective import SPLITS, Examples, Objective
from gpnn.train.optimizer import clip_gradients, learning_rate, make_optimizer
from gpnn.train.recipe import Recipe
from gpnn.train.self_training import add_labels, check_labels, predict_labels
from gpnn.train.solvers import MiniBatches, Solver, make_solver
from gpnn.train.task import Task, task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan
    from gpnn.train.fit import Callback, Record

MOST_LOGITS = 1 << 31  # outputs of all nodes that a result holds
MAPPED_LOGITS = 1 << 26  # more lie in a file, where there is a folder for it


def holds_logits(num_nodes: int, num_outputs: int) -> bool:
    """Whether a result holds the outputs of all nodes, of which a report is made."""
    return num_nodes * num_outputs <= MOST_LOGITS


@dataclass
class Trainer:
    """The parts of one training that change with its epochs; :func:`gpnn.train.fit` runs it."""

    model: nn.Module
    task: Task
    examples: Examples
    plan: Plan
    recipe: Recipe
    seed: int
    objective: Objective
    optimizer: torch.optim.Optimizer
    rate: Callable[[int], float]
    metric: str
    group: ProcessGroup
    num_validation: int
    solver: Solver | None
    initial_weights: dict[str, Tensor]  # with which each generation starts; none where there is one alone
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def of(cls, model: nn.Module, data: Data, plan: Plan, recipe: Recipe, seed: int) -> Trainer:
        device, group = next(model.parameters()).device, group_of(plan)
        check_recipe(recipe, model, data, group.size)
        examples = Examples.from_data(data, device, features=features_device(data.get("x"), model, plan))
        target = examples.target("train")
        counts = group.all_reduce(torch.tensor([len(target), examples.nodes["val"].numel()])).tolist()
        if not counts[0]:
            raise ValueError("`train_mask` must hold at least one labelled node. Got none.")
        optimizer = _optimizer_of(model, recipe)
        task = task_of(data, recipe.target_scale).prepare(target, group)
        metric = task.choose_metric(recipe.metric, target, group)
        objective = Objective.of(task, examples, recipe, group)
        solver = make_solver(model, task, examples, plan, recipe, metric, optimizer, seed)
        initial = copy_weights(model) if recipe.self_training else {}
        moving = (objective, optimizer, _rate_of(recipe), metric, group, counts[1], solver, initial)
        return cls(model, task, examples, plan, recipe, seed, *moving)

    def load(self, checkpoint: Path) -> None:
        """Go on from a checkpoint, where there is one."""
        self.progress = load_checkpoint(checkpoint, self.model, self.optimizer, self.plan) or self.progress
        if self.progress.labels is not None:
            self.learn(self.progress.labels)

    def learn(self, labels: Tensor) -> None:
        """Learn predicted labels, `[N]`, −1 where there is none, beside those of the training nodes.

        Raises:
            ValueError: when they are not classes of these nodes.
        """
        check_labels(labels, len(self.examples.y), self.task.num_outputs)
        self.progress.labels = labels
        labels = labels.to(self.examples.y.device)
        if isinstance(self.solver, MiniBatches):
            self.solver = replace(self.solver, labels=labels, optimizer=self.optimizer)
        else:
            examples = add_labels(self.examples, labels)
            self.objective = Objective.of(self.task, examples, self.recipe, self.group)

    def run(
        self, checkpoint: Path | None, callbacks: Sequence[Callback], *, keep_end: bool = False
    ) -> tuple[str, str | None]:
        """Take epochs until there is a reason to stop; the reason, and the problem if it is one."""
        progress, last_saved = self.progress, time.monotonic()
        while not self.at_end:
            problem = self._epoch()
            if problem is not None:
                return "non_finite", problem
            ends = [callback.epoch(progress.history[-1]) for callback in callbacks]
            due = any(ends) or self._due(last_saved) or (keep_end and self.at_end)
            stop, save = self.group.any(any(ends), due)
            if checkpoint is not None and save:
                save_checkpoint(checkpoint, self.model, self.optimizer, progress, self.plan)
                last_saved = time.monotonic()
            if stop:
                return "interrupted", None
        return ("patience" if self._out_of_patience() else "epochs"), None

    def predict_all(self, folder: Path | None) -> Tensor | None:
        """The outputs of all nodes, `[N, C]`, in a file in `folder` where they are many; None: they are too many."""
        if not getattr(self.model, "selects_rows", False) or self.plan is None or self.group.size > 1:
            return self.predict()
        if not holds_logits(self.plan.num_nodes, self.task.num_outputs):
            return None
        few = self.plan.num_nodes * self.task.num_outputs <= MAPPED_LOGITS
        if folder is None or few or self.plan.device.type != "cpu":
            return self.predict()
        return map_logits(self.model, self.examples.x, self.plan, folder, precision=self.recipe.precision)

    def finish(self, stopped: str, logits: Tensor | None) -> tuple[dict[str, Any], str | None]:
        """The final metrics of the weights that the model holds now; if a prediction is not finite, the problem.

        Weights of a last step that nothing validated, or nodes outside all splits, may be the first to show it.
        """
        progress, outputs = self.progress, self._split_outputs(logits)
        shown = map(outputs, SPLITS) if logits is None else [logits]
        if self.group.any(not all(map(all_finite, shown)))[0]:
            loss = progress.history[-1]["loss"] if progress.history else math.nan
            return {}, divergence("prediction", progress.epoch, loss, self.rate(progress.epoch))
        self.task, scores = calibrated_scores(outputs, self.task, self.examples, self.group)
        totals = {
            "metric": self.metric,
            "epochs": progress.epoch,
            "best_epoch": progress.best_epoch or progress.epoch,
            "seconds": progress.seconds,
            **self._most_traffic(),
            "stopped": stopped,
        }
        return scores | totals, None

    def _split_outputs(self, logits: Tensor | None) -> Callable[[str], Tensor]:
        """Gives the outputs of a split's nodes; without those of all nodes they take one pass."""
        nodes = self.examples.nodes
        if logits is not None:
            return lambda split: logits[nodes[split].to(logits.device)]
        rows, place = torch.cat([nodes[split] for split in SPLITS]).unique(return_inverse=True)
        places = dict(zip(SPLITS, place.split([len(nodes[split]) for split in SPLITS])))
        outputs = self.predict(rows)
        return lambda split: outputs[places[split]]

    def _epoch(self) -> str | None:
        """One step and, when it is due, one validation; the problem if a number is not finite."""
        began, epoch = time.perf_counter(), self.progress.epoch + 1
        if epoch > 1 and self.recipe.self_training and self.recipe.generation(epoch)[1] == 1:
            self._begin_generation()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(epoch)
        record, norm = self._step(epoch) if self.solver is None else self.solver.step(self.progress.history)
        loss = record["loss"]
        if not math.isfinite(loss + norm):
            return divergence("gradient" if math.isfinite(loss) else "loss", epoch, loss, self.rate(epoch))
        self.progress.epoch = epoch
        record = {"epoch": epoch, **record}
        if self.recipe.self_training:
            record["generation"] = self.recipe.generation(epoch)[0]
        due = epoch % self.recipe.check_every == 0 or epoch == self.recipe.epochs
        if due or self.solver is not None:
            record |= self._validate()
            if not math.isfinite(record.get("val_loss", 0.0)):
                return divergence("validation loss", epoch, loss, self.rate(epoch))
        seconds = time.perf_counter() - began
        record |= {"gradient_norm": norm, "learning_rate": self.rate(epoch), "seconds": seconds, **self._traffic()}
        self.progress.seconds += seconds
        self.progress.history.append(record)
        if "best_epoch" in record and self.recipe.patience:
            record["patience_left"] = max(0, self._patience_left())
        return None

    def _begin_generation(self) -> None:
        """Start anew with the initial weights, and learn what the best weights so far predict; patience starts, too."""
        self.model.load_state_dict(self.progress.best_weights or self.model.state_dict())
        labels = predict_labels(self.predict(), self.examples)
        self.progress.checks_since_best = 0
        self.model.load_state_dict(self.initial_weights)
        self.optimizer = _optimizer_of(self.model, self.recipe)
        self.learn(labels)

    def _step(self, epoch: int) -> tuple[Record, float]:
        """One optimiser step, unless loss or gradient is not finite; the loss and the gradient's norm."""
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        with products(self.recipe.precision):
            loss = self._loss(epoch)
            loss.backward()
        value, norm = float(self.group.all_reduce(loss)), clip_gradients(self.model, self.recipe.clip, self.group)
        if math.isfinite(value + norm):
            self.optimizer.step()
        return {"loss": value}, norm

    def _loss(self, epoch: int) -> Tensor:
        """The loss of an epoch; in one pass there and back where the model can."""
        keys = [MaskKey(self.seed, epoch, number) for number in range(self.recipe.passes)]
        x, plan, rows = self.examples.x, self.plan, self.objective.rows
        with autocast(self.model, self.recipe.precision):
            if rows is not None and getattr(self.model, "selects_rows", False):
                shares = [self.model.loss(x, plan, rows, self.objective.share, key) for key in keys]  # type: ignore[operator]
                if all(share is not None for share in shares):
                    return torch.stack(shares).sum()
            logits = [full_precision(call_model(self.model, x, plan, key, rows)) for key in keys]
        return self.objective.loss(logits, self.recipe.generation(epoch)[1])

    def _validate(self) -> Record:
        if not self.num_validation:
            return {}
        names = sorted({self.task.watched, self.metric} - {"loss"})
        outputs = self.predict(self.examples.nodes["val"])
        scores = score_split(outputs, self.task, self.examples, "val", names, self.group)
        self.progress.check(self.model, merit(self.metric, scores[f"val_{self.metric}"]), scores["val_loss"])
        scores["best_epoch"] = self.progress.best_epoch
        return scores

    def predict(self, rows: Tensor | None = None) -> Tensor:
        return predict_logits(self.model, self.examples.x, self.plan, precision=self.recipe.precision, rows=rows)

    def _traffic(self) -> Record:
        """Bytes of the busiest process since the last epoch, where nodes are shared among processes."""
        return self.group.reset_traffic() if isinstance(self.plan, ShardedPlan) else {}

    def _most_traffic(self) -> Record:
        """The number of processes and the most bytes of an epoch, where nodes are shared among processes."""
        if not isinstance(self.plan, ShardedPlan):
            return {}
        history = self.progress.history
        most = {name: max((record.get(name, 0) for record in history), default=0) for name in TRAFFIC}
        return {"num_processes": self.group.size, **most}

    @property
    def at_end(self) -> bool:
        """Whether there is no further epoch."""
        return self.progress.epoch >= self.recipe.epochs or self._out_of_patience() or self._solved()

    def _out_of_patience(self) -> bool:
        """Whether as many validations as patience allows brought no gain, or none that counts."""
        return bool(self.recipe.patience) and self._patience_left() <= 0

    def _patience_left(self) -> int:
        """The validations without a gain after which the training stops."""
        tolerance = self.recipe.tolerance
        history = self.progress.history[-self.recipe.generation(max(1, self.progress.epoch))[1] :]
        level = checks_on_level(history, self.metric, tolerance) if tolerance else 0
        return self.recipe.patience - max(self.progress.checks_since_best, level)

    def _solved(self) -> bool:
        return self.solver is not None and self.solver.next(self.progress.history) is None

    def _due(self, last_saved: float) -> bool:
        every, seconds = self.recipe.checkpoint_every, self.recipe.checkpoint_seconds
        by_epochs = every > 0 and self.progress.epoch % every == 0
        return by_epochs or (seconds > 0 and time.monotonic() - last_saved >= seconds)


def _optimizer_of(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    return make_optimizer(
        model,
        recipe.optimizer,
        learning_rate=recipe.learning_rate,
        weight_decay=float(recipe.weight_decay),
        decay_on=recipe.decay_on,
    )


def _rate_of(recipe: Recipe) -> Callable[[int], float]:
    """The learning rate of an epoch, which moves anew in each generation."""
    moving = learning_rate(
        recipe.learning_rate,
        schedule=recipe.learning_rate_schedule,
        warmup=recipe.warmup,
        epochs=int(recipe.self_training) or recipe.epochs,
    )
    return lambda epoch: moving(recipe.generation(epoch)[1])


def checks_on_level(history: Sequence[Record], metric: str, tolerance: float) -> int:
    """Validations since the metric last rose by more than `tolerance` of the level that it was on.

    >>> checks_on_level([{"val_accuracy": value} for value in (0.5, 0.8, 0.8004, 0.8007)], "accuracy", 0.001)
    2
    """
    values = [merit(metric, each[f"val_{metric}"]) for each in history if each.get(f"val_{metric}") is not None]
    level, since = -math.inf, 0
    for value in values:
        gained = value > level + tolerance * abs(level) if math.isfinite(level) else value > level
        level, since = (value, 0) if gained else (level, since + 1)
    return since
