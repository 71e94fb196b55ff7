"""fit: full-batch training with exact gradients, validated, checkpointed and resumable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from torch import Tensor, nn

from gpnn.distributed import group_of
from gpnn.engine.saved_states import release_host_rows
from gpnn.pages import freed_memory_kept, release_pages, return_freed
from gpnn.text import curves_html, metric_text, metric_words, table_html
from gpnn.train.metrics import merit
from gpnn.train.objective import SPLITS, Examples, check_plan
from gpnn.train.recipe import Recipe, resolve_recipe
from gpnn.train.task import Prediction, Scale, Task, task_of
from gpnn.train.trainer import Trainer

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan

Record: TypeAlias = dict[str, Any]
ENDS = ("epochs", "patience")  # the reasons to stop that leave predictions
TRIAL_EPOCHS = 60  # of a training that compares scales of the targets; which suits shows early


class Callback(Protocol):
    """What follows a training: a progress bar, a history file, a plot."""

    def start(self, history: list[Record]) -> bool | None:
        """Training begins; `history` holds the epochs done before, when it is resumed from a checkpoint.

        True ends the training here.
        """

    def epoch(self, record: Record) -> bool | None:
        """An epoch is done; True ends the training here, with a checkpoint to continue from."""


@dataclass(frozen=True)
class FitResult:
    """What a training came to; the model itself holds the best weights.

    Attributes:
        metrics: final metrics: `val_accuracy`, `test_accuracy`, …, `seconds`, `epochs`, …; none where it diverged, or
            was interrupted and these were not wanted.
        history: one record per epoch: `epoch`, `loss`, `seconds`, …; where it was checked `val_accuracy`, `best_epoch`
            and, with patience, `patience_left`, ….
        stopped: why it ended: "epochs", "patience", "non_finite" or "interrupted".
        problem: one sentence when it diverged ("non_finite"), else None.
        logits: the outputs for every node with the best weights, `[N, C]`, on the model's device, or in a mapped file
            where they are many; None where there are no metrics, or where they would be very large: predictions are
            then made by pieces.
        task: what they mean: `task.predict(logits)` gives probabilities, or numbers in the user's unit.
    """

    metrics: dict[str, Any]
    history: list[Record]
    stopped: str
    problem: str | None = None
    logits: Tensor | None = field(default=None, repr=False, compare=False)
    task: Task | None = field(default=None, repr=False, compare=False)

    def prediction(self, weight: float) -> Prediction:
        """What it predicts of all nodes, as one of a blend that weighs this much."""
        assert self.task is not None
        assert self.logits is not None
        return Prediction(weight, self.task, self.logits)

    def _repr_html_(self) -> str:
        return training_html(self.metrics, self.history)


def training_html(metrics: Mapping[str, Any], history: Sequence[Record]) -> str:
    """A training as a notebook shows it: the metrics of each split, and curves of loss and validation."""
    names = [name.removeprefix("train_") for name in metrics if name.startswith("train_")]
    rows = [
        [metric_words(name), *(metric_text(name, metrics.get(f"{split}_{name}")) for split in SPLITS)] for name in names
    ]
    shown = ("loss", "val_loss", f"val_{metrics.get('metric')}")
    curves = {
        name: [(each["epoch"], each[name]) for each in history if each.get(name) is not None]
        for name in dict.fromkeys(shown)
    }
    ended = f"{metrics.get('epochs', len(history))} epochs, the best is {metrics.get('best_epoch', '–')}"
    return table_html(["", *SPLITS], rows, ended) + curves_html(curves, "loss and validation by epoch")


def fit(
    model: nn.Module,
    data: Data,
    plan: Plan,
    *,
    recipe: Recipe | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
    callbacks: Sequence[Callback] = (),
    keep_end: bool = False,
    score_interrupted: bool = False,
) -> FitResult:
    """Train the model on the labelled training nodes of `data`; it ends with its best weights.

    An epoch is one step along the exact gradient of the whole graph, or one setting of a model that has a solver of its
    own (:data:`gpnn.train.solvers.SOLVERS`). The best weights are those with the best
    validation metric (ties: the smaller validation loss); without validation nodes, those of the last epoch.
    The same model, data, recipe and seed give the same bits, also through a checkpoint.

    Args:
        model: called as `model(x, plan, key=MaskKey(seed, epoch, pass))`; gives logits `[N, C]`. One that
            `selects_rows` is also asked, by `rows`, for those of some nodes alone, `[n, C]`.
        data: features, labels and masks of N nodes.
        plan: the lowered schedule, on the model's device.
        recipe: how to train; None is `Recipe()`.
        seed: names the random masks.
        checkpoint: file to continue from where it exists, and to write to as the recipe says.
        callbacks: each is called at the start and after every epoch.
        keep_end: write the checkpoint of the last epoch, too, whatever the recipe says.
        score_interrupted: take the metrics of the best weights also where a callback ended the training.

    Raises:
        ValueError: when there is nothing to learn from, the plan is another graph's, or the checkpoint another model's.
    """
    check_plan(data, plan)
    trainer = Trainer.of(model, data, plan, resolve_recipe(recipe or Recipe(), data), seed)
    if checkpoint is not None:
        trainer.load(checkpoint)
    with freed_memory_kept(bool(getattr(model, "keeps_freed", False))):
        result = _run(trainer, checkpoint, callbacks, keep_end=keep_end, score_interrupted=score_interrupted)
    return_freed()
    release_host_rows()
    return result


def _run(
    trainer: Trainer,
    checkpoint: Path | None,
    callbacks: Sequence[Callback],
    *,
    keep_end: bool,
    score_interrupted: bool,
) -> FitResult:
    """The epochs of a training, and the metrics of its best weights, which the model ends with."""
    progress = trainer.progress
    ends = [callback.start(progress.history) for callback in callbacks]
    if trainer.group.any(any(ends))[0] and not trainer.at_end:
        stopped, problem = "interrupted", None
    else:
        stopped, problem = trainer.run(checkpoint, callbacks, keep_end=keep_end)
    if progress.best_weights:
        trainer.model.load_state_dict(progress.best_weights)
    metrics: dict[str, Any] = {}
    logits = None
    if stopped in ENDS or (score_interrupted and stopped == "interrupted" and progress.epoch):
        return_freed()  # outputs of all nodes take as much elsewhere, and so do metrics
        logits = trainer.predict_all(None if checkpoint is None else checkpoint.parent)
        release_pages()
        metrics, problem = trainer.finish(stopped, logits)
        stopped = stopped if problem is None else "non_finite"
    return FitResult(metrics, progress.history, stopped, problem, logits if metrics else None, trainer.task)


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
        trial = replace(recipe, target_scale=scale, epochs=min(TRIAL_EPOCHS, recipe.epochs), patience=0)
        metrics = fit(deepcopy(model), data, plan, recipe=trial, seed=seed).metrics
        found = metrics.get(f"val_{metrics.get('metric')}")
        merits[scale] = -math.inf if found is None or math.isnan(found) else merit(metrics["metric"], found)
    best: Scale = max(scales, key=merits.__getitem__)  # ties: the first
    return replace(recipe, target_scale=best)
