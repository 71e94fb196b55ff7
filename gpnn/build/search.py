"""Random search: configurations tried on validation, the best one kept."""

from __future__ import annotations

import json
import math
import random
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gpnn.build.finish import keep_training
from gpnn.build.objects import Begun
from gpnn.build.unchanged import adopt_config, check_noted
from gpnn.config import Config, sound_config
from gpnn.race.halving import CHECKPOINT
from gpnn.storage.atomic import make_folder, write_json
from gpnn.storage.read import read_json
from gpnn.train.fit import Callback, FitResult
from gpnn.train.metrics import merit
from gpnn.train.task import task_of

if TYPE_CHECKING:
    from gpnn.run.folder import RunFolder

Settings = dict[str, Any]

# Each row is one question; a trial takes one choice of each, with equal probability. A row of which the user has set
# something himself is left alone.
SPACE: tuple[tuple[Settings, ...], ...] = (
    tuple({"schedule.rounds": rounds} for rounds in (2, 4, 6, 10)),
    tuple({"schedule.normalization": rule} for rule in ("split", "symmetric_split")),
    tuple({"model.hidden_channels": width} for width in (32, 64, 128)),
    ({"model.predict": "auto", "model.readout": "auto"}, {"model.predict": "after", "model.readout": "mean"}),
    tuple({"model.concat": beside} for beside in ("none", "auto")),
    tuple({"model.input_dropout": p} for p in (0.0, 0.3, 0.5, 0.7)),
    tuple({"model.dropout": p} for p in (0.2, 0.5, 0.8)),
    (
        {"model.drop_node": 0.0, "train.passes": 1, "train.consistency": 0.0},
        {"model.drop_node": 0.5, "train.passes": 2, "train.consistency": 1.0, "train.temperature": 0.5},
        {"model.drop_node": 0.5, "train.passes": 2, "train.consistency": 2.0, "train.temperature": 0.3},
    ),
    tuple({"train.learning_rate": rate} for rate in (0.003, 0.01, 0.03)),
    tuple({"train.weight_decay": decay} for decay in (1e-5, 2e-4, 1e-3)),
)


@dataclass(frozen=True)
class Search:
    """A search of `num` trials around a base configuration; the first trial is the base itself.

    Attributes:
        num: number of trials.
        base: the configuration that trials change, as TOML.
        fixed: settings that trials leave alone.
    """

    num: int
    base: str
    fixed: tuple[str, ...] = ()
    file: ClassVar[str] = "search.json"

    def to_json(self) -> str:
        """The search before its first trial, as the run folder notes it."""
        return json.dumps({"num": self.num, "base": self.base, "fixed": self.fixed, "trials": []}) + "\n"

    def trials(self) -> Iterator[Settings]:
        """The settings of each trial: distinct, and the same for the same base seed."""
        base = self.config({})
        generator = random.Random(base.seed)
        seen: set[str] = set()
        rows = [row for row in SPACE if not any(key in self.fixed for choice in row for key in choice)]
        most = min(self.num, 1 + math.prod(map(len, rows))) if rows else 1
        yield {}
        while len(seen) < most - 1:
            settings = {key: value for row in rows for key, value in generator.choice(row).items()}
            if (key := json.dumps(settings, sort_keys=True)) not in seen:
                seen.add(key)
                yield settings

    def config(self, settings: Settings) -> Config:
        """The base with a trial's settings."""
        nested = tomllib.loads(self.base)
        for key, value in settings.items():
            section, _, name = key.partition(".")
            nested.setdefault(section, {})[name] = value
        return sound_config(nested)


def search_run(
    run: RunFolder,
    begun: Begun,
    *,
    callbacks: Sequence[Callback] = (),
    on_trial: Callable[[dict[str, Any]], None] | None = None,
    on_training: Callable[[int, int], None] | None = None,
) -> Begun | None:
    """Do the trials that are left, make the best configuration the run's, and build it; None if interrupted.

    A run without a search keeps the objects that it began with. One that is interrupted has the predictions of the best
    trial so far. The best trial's checkpoint becomes the run's.

    Args:
        run: the run folder; its `search.json` holds the table: a row per trial, validation metrics only.
        begun: the objects that the run began with; no trial changes their data.
        callbacks: of every trial; one that ends a trial ends the search.
        on_trial: called with each trial's row.
        on_training: called before each trial with its number and its epochs.
    """
    if not run.search.exists() or begun.own is not None:  # shards train what a search has chosen
        return begun
    data = begun.data
    search, noted = read_search(run.search)
    metric = task_of(data).choose_metric(search.config({}).train.metric, data.y[data.train_mask])
    for number, settings in enumerate(search.trials()):
        if number < len(noted["trials"]):
            continue
        built = begun.build_other(search.config(settings))
        if on_training is not None:
            on_training(number, built.config.train.epochs)
        checkpoint = _checkpoint(run, number)
        make_folder(checkpoint.parent)
        result = built.fit(checkpoint, callbacks)
        row = {"trial": number, "settings": settings, **_validation_metrics(result, metric)}
        if result.stopped == "interrupted":
            _keep_best(run, begun, search, [*noted["trials"], row])
            return None
        noted["trials"].append(row)
        write_json(run.search, noted)
        _remove_others(run, best_trial(noted["trials"])["trial"])
        if on_trial is not None:
            on_trial(row)
    best = best_trial(noted["trials"])
    built = begun.build_other(search.config(best["settings"]))
    run.take_checkpoint(_checkpoint(run, best["trial"]).parent)
    adopt_config(run, built.config)
    return built


def _checkpoint(run: RunFolder, trial: int) -> Path:
    return run.path / "search" / str(trial) / CHECKPOINT


def _keep_best(run: RunFolder, begun: Begun, search: Search, trials: Sequence[Mapping[str, Any]]) -> None:
    """Let the best trial so far serve predictions."""
    trials = [trial for trial in trials if trial["value"] is not None and _checkpoint(run, trial["trial"]).exists()]
    if trials:
        best = best_trial(trials)
        built = begun.build_other(search.config(best["settings"]))
        keep_training(run, built, _checkpoint(run, best["trial"]), lambda: adopt_config(run, built.config))


def _remove_others(run: RunFolder, trial: int) -> None:
    """Remove the checkpoints of all trials but one."""
    for folder in (run.path / "search").iterdir():
        if folder.name != str(trial):
            shutil.rmtree(folder, ignore_errors=True)


def check_searched(run: RunFolder) -> None:
    """Raise ValueError where trials of a run's search are left, which one process does."""
    search, noted = read_search(run.search)
    left = len(list(search.trials())) - len(noted["trials"])
    if left:
        raise ValueError(f"`--search` is for one process, which must finish it first. Got {left} trials to do.")


def read_search(path: Path) -> tuple[Search, dict[str, Any]]:
    """The search that a run's `search.json` notes, and all it notes: `num`, `base`, `fixed` and rows of `trials`.

    Raises:
        ValueError: when it notes something else, or trials that are not this search's.
    """
    noted = read_json(path)
    check_noted(noted, {"num": int, "trials": list}, path.name, "search")
    search = Search(noted["num"], noted["base"], tuple(noted["fixed"]))
    expected = [
        {"trial": number, "settings": each} for number, each in zip(range(len(noted["trials"])), search.trials())
    ]
    sound = all(map(_is_trial, noted["trials"]))
    if not sound or [{name: row.get(name) for name in ("trial", "settings")} for row in noted["trials"]] != expected:
        raise ValueError(f"{path.name} must note the trials of its search. Got others.")
    return search, noted


def _is_trial(row: Any) -> bool:
    """Whether a row has metrics that can be compared."""
    return isinstance(row, dict) and all(
        isinstance(row.get(name), int | float | None) for name in ("value", "val_loss")
    )


def best_trial(trials: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The trial with the best validation metric; ties go to the smaller validation loss, then to the first."""
    worst = float("-inf")

    def rank(trial: Mapping[str, Any]) -> tuple[float, float]:
        value, loss = trial.get("value"), trial.get("val_loss")
        return (worst if value is None else value, worst if loss is None else -loss)

    return max(trials, key=rank)


def _validation_metrics(result: FitResult, metric: str) -> dict[str, Any]:
    """The validation metrics of a trial; the test nodes are not read, and a trial that diverged has no metrics."""
    if not result.metrics:
        return {"metric": metric, "value": None, "epochs": len(result.history), "stopped": result.stopped}
    metrics = {name: value for name, value in result.metrics.items() if name.startswith("val_")}
    found = metrics.get(f"val_{metric}")
    value = None if found is None else merit(metric, found)
    kept = {name: result.metrics[name] for name in ("epochs", "best_epoch", "seconds", "stopped")}
    return {"metric": metric, "value": value, **metrics, **kept}
