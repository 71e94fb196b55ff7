"""Race and peers: what the library does by default, and what others reach, on one dataset."""

from __future__ import annotations

from experiments.harness.kinds.baseline import load_data, small_data
from experiments.harness.kinds.kind import Kind, Metrics, unknown_keys
from experiments.harness.settings import Settings


def run_race(settings: Settings, seed: int) -> Metrics:
    """The metrics of an estimator that is told nothing but its seed, and the recipe that it chose.

    Settings: `data` is a dataset's name and options; `recipe`, `budget` and `device` are the estimator's, if given.
    """
    from gpnn import GPNNClassifier, GPNNRegressor
    from gpnn.train.task import task_of

    data = load_data(settings)
    given = {name: settings[name] for name in ("recipe", "budget", "device") if name in settings}
    make = GPNNRegressor if task_of(data).name == "regression" else GPNNClassifier
    fitted = make(seed=seed, **given).fit(data)
    return {**fitted.metrics_, "recipe": fitted.recipe_}


def run_peers(settings: Settings, seed: int) -> Metrics:
    """The metrics of :func:`experiments.peers.peer.run_peer`: `method` is its name, `options` its further arguments."""
    from experiments.peers.peer import run_peer

    return run_peer(settings["method"], load_data(settings), seed, **settings.get("options", {}))


def _shrink_race(settings: Settings) -> Settings:
    return {**settings, "data": small_data(settings), "recipe": "columns", "device": "cpu"}


def _shrink_peer(settings: Settings) -> Settings:
    return {**settings, "data": small_data(settings), "options": {"epochs": 2}}


def _race_problems(settings: Settings) -> list[str]:
    return unknown_keys(settings, dict.fromkeys(("kind", "data", "recipe", "budget", "device")))


def _peer_problems(settings: Settings) -> list[str]:
    from experiments.peers.peer import METHODS, run_peer

    problems = unknown_keys(settings, {**dict.fromkeys(("kind", "data", "method")), "options": run_peer})
    if settings.get("method") not in METHODS:
        problems.append(f"`method` must be one of {', '.join(METHODS)}. Got {settings.get('method')!r}.")
    return problems


RACE = Kind(run_race, _shrink_race, _race_problems)
PEER = Kind(run_peers, _shrink_peer, _peer_problems)
