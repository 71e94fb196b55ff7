"""Race and peers: what the library does by default, and what others reach, on one dataset."""

from __future__ import annotations

import time
import warnings

from experiments.harness.kinds.baseline import load_data, small_data
from experiments.harness.kinds.kind import Kind, Metrics, unknown_keys
from experiments.harness.settings import Settings


def run_race(settings: Settings, seed: int) -> Metrics:
    """The metrics of an estimator that is told nothing but its seed, and the recipe that it chose.

    Settings: `data` is a dataset's name and options; `recipe`, `budget`, `blend` and `device` are the estimator's, if
    given; `metric` is what chooses. `val_score` and `test_score` are its values, `val_score_NAME` what a recipe had
    reached when it went no further.
    """
    from gpnn import GPNNClassifier, GPNNRegressor
    from gpnn.train.notes import NoteWarning
    from gpnn.train.task import task_of

    data, began = load_data(settings), time.process_time()
    given = {name: settings[name] for name in ("recipe", "budget", "blend", "device") if name in settings}
    make = GPNNRegressor if task_of(data).name == "regression" else GPNNClassifier
    options = {"metric": settings["metric"]} if "metric" in settings else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoteWarning)
        fitted = make(seed=seed, train_options=options, **given).fit(data)
    tried = getattr(fitted, "race_", None)
    reached = {} if tried is None else {f"val_score_{name}": tried.last(name)["value"] for name in tried.costs}
    found = {**fitted.metrics_, "recipe": fitted.recipe_, **reached}
    return _scored(found, began)


def run_peers(settings: Settings, seed: int) -> Metrics:
    """The metrics of :func:`experiments.peers.peer.run_peer`: `method`, `device` and all `options` are its own."""
    from experiments.peers.peer import run_peer

    options = {**settings.get("options", {}), "metric": settings.get("metric", "auto")}
    options |= {"device": settings["device"]} if "device" in settings else {}
    data, began = load_data(settings), time.process_time()
    return _scored(run_peer(settings["method"], data, seed, **options), began)


def _scored(metrics: Metrics, began: float) -> Metrics:
    """The metrics and, as `val_score` and `test_score`, those that chose: tables of several tasks show them.

    `cpu_seconds` are those since the process's clock said `began`.
    """
    metrics = {**metrics, "cpu_seconds": time.process_time() - began}
    return metrics | {f"{split}_score": metrics[f"{split}_{metrics['metric']}"] for split in ("val", "test")}


def _shrink_race(settings: Settings) -> Settings:
    return {**settings, "data": small_data(settings), "recipe": "columns", "device": "cpu"}


def _shrink_peer(settings: Settings) -> Settings:
    return {**settings, "data": small_data(settings), "options": {"epochs": 2}}


def _race_problems(settings: Settings) -> list[str]:
    return unknown_keys(settings, dict.fromkeys(("kind", "data", "recipe", "budget", "blend", "device", "metric")))


def _peer_problems(settings: Settings) -> list[str]:
    from experiments.peers.peer import METHODS, PUBLISHED, run_peer

    known = {**dict.fromkeys(("kind", "data", "method", "metric", "device")), "options": run_peer}
    problems = unknown_keys(settings, known)
    if settings.get("method") not in (*METHODS, *PUBLISHED):
        problems.append(f"`method` must be one of {', '.join((*METHODS, *PUBLISHED))}. Got {settings.get('method')!r}.")
    return problems


RACE = Kind(run_race, _shrink_race, _race_problems)
PEER = Kind(run_peers, _shrink_peer, _peer_problems)
