"""run_race: recipes trained in rungs; after each rung the better ones continue from their checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Generic

import torch

from gpnn.data.splits import count_labels, split_mask
from gpnn.distributed import SINGLE, ProcessGroup, group_of
from gpnn.distributed.process_group import RankFailed
from gpnn.memory.engine import DoesNotFit
from gpnn.race.budget import MOST, PER_RECIPE, default_budget, measured_seconds, nominal_seconds
from gpnn.race.record import AGAIN, FRACTIONS, RaceRecord, Row, rung_epochs
from gpnn.race.start import Start, T, Trial, fit_trial
from gpnn.recipes import FEW_LABELS, parse_training
from gpnn.storage.atomic import make_folder
from gpnn.train.blend import choose_blend
from gpnn.train.fit import ENDS, Callback, FitResult
from gpnn.train.metrics import merit
from gpnn.train.objective import Examples
from gpnn.train.task import task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

CHECKPOINT = "training.safetensors"
LEAST_EPOCHS = 10  # in the first rung; a recipe that gets fewer tells nothing and does not take part
LARGE = 200_000  # nodes from which on the cost of an epoch is measured, whatever the budget


def run_race(
    starts: Mapping[str, Callable[[], T]],
    folder: Path,
    *,
    budget: float | None = None,
    record: RaceRecord | None = None,
    on_record: Callable[[RaceRecord], None],
    on_training: Callable[[int, str, int], None] | None = None,
    on_measure: Callable[[str], None] | None = None,
    callbacks: Sequence[Callback] = (),
    group: ProcessGroup = SINGLE,
    first: str | None = None,
) -> RaceRecord:
    """The record of a race; where it was interrupted, `finalists` are empty and `leader` is best so far; collective.

    In each rung a training continues to a share of its epochs, as far as the budget allows, and the better ones stay
    (successive halving: Jamieson and Talwalkar 2016). A training continues from its checkpoint, so that it
    comes to the same bits as alone.

    Args:
        starts: makes each training anew, by the name of its recipe.
        folder: of checkpoints, a folder per name.
        budget: seconds, or None: :func:`gpnn.race.budget.default_budget`.
        record: of an earlier part of this race, which is then continued.
        on_record: called with the decision and, after each training, with the record that holds its row.
        on_training: called before each training with its rung, its name and the epoch it goes to.
        on_measure: called with a name before an epoch of it is measured, which on a large graph takes its time.
        callbacks: of every training; one that ends a training ends the race.
        group: the processes that train.
        first: the recipe that is built before all others, which changes nothing else.

    Raises:
        DoesNotFit: when no recipe fits in memory.
    """
    record = decide(starts, budget, on_measure, group, first) if record is None else replace(record, interrupted=None)
    on_record(record)
    for rung in range(len(FRACTIONS)):
        limits = rung_epochs(record, rung)
        for name in record.alive(rung):
            if record.find(rung, name) is not None:
                continue
            if on_training is not None:
                on_training(rung, name, limits[name])
            before = record.epochs_before(rung, name)
            row = _take_rung(starts[name](), folder / name, before, limits[name], record.metric, callbacks)
            row = {"rung": rung, "name": name, **row}
            if row["stopped"] == "interrupted":
                return replace(record, interrupted=row)
            record = replace(record, rows=(*record.rows, row))
            on_record(record)
    return record


@dataclass(eq=False)
class Finals(Generic[T]):
    """The trainings that a race leaves, each as far as the race took it, and their blend.

    Attributes:
        starts: builds the trainings of each recipe, by its name.
        folder: of checkpoints.
        record: of the race; None where there was one recipe and nothing to choose.
    """

    starts: Mapping[str, Start[T]]
    folder: Path
    record: RaceRecord | None

    def build(self, name: str) -> T:
        """The objects of a training, with the epochs that the budget left it."""
        recipe, number = parse_training(name)
        return self.starts[recipe](None if self.record is None else self.record.limit(name), number=number)

    def train(self, name: str, begin: Callable[[T], Sequence[Callback]] | None = None) -> tuple[T, FitResult]:
        """The objects and the result of a training, from the race's checkpoint; collective.

        Args:
            name: of the training.
            begin: called with the objects before they are trained; gives the callbacks of the training.
        """
        made = self.build(name)
        checkpoint = None if self.record is None else self.folder / name / CHECKPOINT
        return made, fit_trial(made, checkpoint, () if begin is None else begin(made))

    def blend(
        self,
        data: Data,
        group: ProcessGroup = SINGLE,
        *,
        on_record: Callable[[RaceRecord], None],
        on_training: Callable[[int, str, int], None] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> RaceRecord:
        """The record with the blend that the validation nodes of `data` choose, its members trained again; collective.

        What is left of the budget trains the members again with other seeds, and the trainings of a recipe share its
        weight. Arguments are those of :func:`run_race`.
        """
        assert self.record is not None
        if self.record.blend is None:
            results = ((name, self.train(name)[1]) for name in self.record.candidates)
            self.record = replace(self.record, blend=choose_blend(results, data, group))
            on_record(self.record)
        while (found := self.record.again) is not None:
            (name, epochs), rung = found, len(FRACTIONS)
            recipe, number = parse_training(name)
            if on_training is not None:
                on_training(rung, name, epochs)
            trial = self.starts[recipe](number=number)
            row = {"rung": rung, "name": name}
            row |= _take_rung(trial, self.folder / name, 0, epochs, self.record.metric, callbacks)
            if row["stopped"] == "interrupted":
                return replace(self.record, interrupted=row)
            self.record = replace(self.record, rows=(*self.record.rows, row))
            on_record(self.record)
        return self.record

    @property
    def members(self) -> dict[str, float]:
        """The weights of the trainings that predict together, the run's own first; 1 where it predicts alone."""
        if self.record is None:
            return dict.fromkeys(self.starts, 1.0)
        return dict(self.record.mixture.weights) or {str(self.record.winner): 1.0}


def decide(
    starts: Mapping[str, Callable[[], T]],
    budget: float | None,
    on_measure: Callable[[str], None] | None = None,
    group: ProcessGroup = SINGLE,
    first: str | None = None,
) -> RaceRecord:
    """Who takes part, the epochs of each and the budget: all that the race then follows; collective.

    Without a budget of the user's, and on a graph of fewer than `LARGE` nodes, costs are nominal and the race is the
    same on every machine. Else an epoch of each is measured, but for those whose ten epochs would, by their sizes
    alone, take longer than all is to take; and where no budget is given, it is such that an ordinary recipe has ten
    epochs in the first rung. Who does not fit in memory does not take part.

    Raises:
        DoesNotFit: when none fits, of the one that takes least.
    """
    record = RaceRecord(0.0, False, "", {}, {})
    refused: dict[str, Exception] = {}
    for name in sorted(starts, key=lambda name: name != first):
        try:
            record, few_labels = _add(record, name, starts[name], budget, len(starts) - len(refused), on_measure)
        except (DoesNotFit, RankFailed) as refusal:
            refused[name] = agree_on_refusal(refusal, group)
        except torch.OutOfMemoryError as refusal:  # of a GPU, against the estimate
            if group.size > 1:
                raise
            refused[name] = refusal.with_traceback(None)
    if not record.costs:
        raise least_refusal(refused)
    record = replace(record, costs={name: record.costs[name] for name in starts if name in record.costs})
    if budget is None and record.measured:
        usual = len(FRACTIONS) * LEAST_EPOCHS * len(record.costs) * median(record.costs.values()) / (1 - AGAIN)
        record = replace(record, budget=min(MOST, max(record.budget, usual)))
    kept = _within_budget(record, keep_first=few_labels, returned=0.0 if budget else PER_RECIPE)
    left_out = {name: cost for name, cost in record.costs.items() if name not in kept.costs}
    return replace(kept, left_out=left_out, too_large={name: _reason(each) for name, each in refused.items()})


def agree_on_refusal(refusal: DoesNotFit | RankFailed, group: ProcessGroup) -> Exception:
    """What a recipe that does not fit is refused with, in every process; collective.

    One process raises DoesNotFit, the others RankFailed.

    Raises:
        RankFailed: when a process failed for another reason.
    """
    if not group.any(isinstance(refusal, DoesNotFit))[0]:
        raise refusal
    return refusal.with_traceback(None)  # which holds what was built


def least_refusal(refused: Mapping[str, Exception]) -> Exception:
    """Of what recipes were refused with, that of the one that takes least memory."""
    return min(refused.values(), key=lambda each: each.estimate.peak if isinstance(each, DoesNotFit) else math.inf)


def _add(
    record: RaceRecord,
    name: str,
    start: Callable[[], T],
    budget: float | None,
    num_recipes: int,
    on_measure: Callable[[str], None] | None,
) -> tuple[RaceRecord, bool]:
    """The record with another recipe, and whether labels are few; what was built for it is freed; collective."""
    trial = start()
    parts = (trial.model, trial.data, trial.plan, trial.recipe)
    num_nodes = sum(group_of(trial.plan).all_gather_counts(trial.plan.num_nodes))
    seconds = budget or default_budget(num_nodes, num_recipes)
    cost = nominal_seconds(*parts)
    measured = budget is not None or num_nodes >= LARGE
    if measured and cost * LEAST_EPOCHS < seconds:
        if on_measure is not None:
            on_measure(name)
        cost = measured_seconds(*parts, seed=trial.seed)
    costs, epochs = {**record.costs, name: cost}, {**record.epochs, name: trial.recipe.epochs}
    ramps = {**(record.ramps or {}), name: trial.recipe.consistency_warmup if trial.recipe.consistency else 0}
    return RaceRecord(seconds, measured, _metric(trial), costs, epochs, ramps=ramps), _has_few_labels(trial)


def _reason(refusal: Exception) -> str:
    if isinstance(refusal, DoesNotFit):
        return refusal.reason
    return "more than another process has" if isinstance(refusal, RankFailed) else "more than the GPU has, as measured"


def _within_budget(record: RaceRecord, *, keep_first: bool, returned: float) -> RaceRecord:
    """The record without those whose share of the first rung is too short to tell anything.

    Args:
        record: of all.
        keep_first: the first one stays, as it does where labels are few and quick recipes learn little from them; the
            others make room for it.
        returned: seconds by which the budget is smaller for each that does not take part.
    """
    while len(record.costs) > 1:
        given = rung_epochs(record, 0)
        least = {name: min(LEAST_EPOCHS, FRACTIONS[0] * record.epochs[name]) for name in given}
        short = [name for name in least if given[name] < least[name]]
        if not short:
            break
        others = list(given)[keep_first:]
        slowest = max(
            [name for name in others if name in short] or others, key=lambda name: record.costs[name] * least[name]
        )
        costs = {name: cost for name, cost in record.costs.items() if name != slowest}
        epochs = {name: record.epochs[name] for name in costs}
        record = replace(record, budget=record.budget - returned, costs=costs, epochs=epochs)
    return record


def _take_rung(trial: Trial, folder: Path, before: int, limit: int, metric: str, callbacks: Sequence[Callback]) -> Row:
    """Train to the epoch `limit`; what a row notes of it, `stopped` is "interrupted" if another callback ended it.

    Args:
        trial: the training.
        folder: of its checkpoint.
        before: the epochs that it had before this rung. Where a kill came between the last epoch and its row, the
            checkpoint is at the limit already, and the limit is still what ended the training.
        limit: the epoch.
        metric: what its validation is judged by.
        callbacks: of the training.
    """
    make_folder(folder)
    end = Limit(limit)
    result = fit_trial(trial, folder / CHECKPOINT, [end, *callbacks], score_interrupted=False)
    row = _row(result, metric)
    if result.stopped == "interrupted" and not end.reached:
        row["stopped"] = "interrupted"
    elif result.stopped in ENDS and end.reached and len(result.history) > before:
        row["stopped"] = "rung"
    return row


@dataclass
class Limit:
    """The callback that ends a training after so many epochs."""

    epochs: int
    reached: bool = False

    def start(self, history: list[dict[str, Any]]) -> bool:
        self.reached = len(history) >= self.epochs
        return self.reached

    def epoch(self, record: dict[str, Any]) -> bool:
        self.reached = record["epoch"] >= self.epochs
        return self.reached


def _row(result: FitResult, metric: str) -> Row:
    """Epochs and seconds so far, and value, loss and epoch of the best validation; the test nodes are not read."""
    history = result.history
    ended = result.stopped in (*ENDS, "non_finite")
    row: Row = {"epochs": len(history), "seconds": sum(each["seconds"] for each in history)}
    row["stopped"] = result.stopped if ended else "rung"
    checked = [
        {"value": merit(metric, each[f"val_{metric}"]), "val_loss": each["val_loss"], "best_epoch": each["epoch"]}
        for each in history
        if each.get(f"val_{metric}") is not None and not math.isnan(each["val_loss"])
    ]
    if not checked or result.problem is not None:
        return row | {"value": None, "earlier": None, "val_loss": None, "best_epoch": 0}
    early = [each["value"] for each in checked if 2 * each["best_epoch"] <= len(history)]
    best = max(checked, key=lambda each: (each["value"], -each["val_loss"]))
    return row | {"earlier": max(early, default=None), **best}


def _has_few_labels(trial: Trial) -> bool:
    """Whether there are few training labels per class; collective."""
    task, own = task_of(trial.data), count_labels(trial.data.y, split_mask(trial.data, "train"))
    classes = 1 if task.name == "regression" else task.num_outputs
    return sum(group_of(trial.plan).all_gather_counts(own)) <= FEW_LABELS * classes


def _metric(trial: Trial) -> str:
    """The metric that ranks, the same for all trainings of one dataset and setting."""
    target = Examples.from_data(trial.data).target("train")
    return task_of(trial.data).choose_metric(trial.recipe.metric, target, group_of(trial.plan))
