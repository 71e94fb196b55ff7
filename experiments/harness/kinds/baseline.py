"""Baseline: one method of :data:`experiments.baselines.BASELINES` on one dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.harness.kinds.kind import SMALL_GRAPH, Kind, Metrics, unknown_keys
from experiments.harness.settings import Settings

if TYPE_CHECKING:
    from torch_geometric.data import Data

QUICK_OPTIONS = {
    "epochs": 2,
    "steps": 5,
    "hidden_channels": 8,
    "model": {},
    "strength": 1.0,
    "num_walks": 1,
    "walk_rounds": 1,
    "label_pairs": 100,
    "label_batches": 1,
    "walk_batches": 1,
}


NUMBERS = ("eccentricity", "shortest_path", "diameter")  # datasets of numbers


def run_method(settings: Settings, seed: int) -> Metrics:
    """The metrics of :func:`experiments.baselines.run_baseline`: accuracies, recall where there are gold pairs, time.

    Settings: `data` is a dataset's name and options; `method` a baseline's name; `options` the method's own.
    """
    from experiments.baselines import run_baseline

    return run_baseline(settings["method"], load_data(settings), seed, settings.get("options", {}))


def load_data(settings: Settings) -> Data:
    """The dataset that the section `data` names, with its options."""
    from gpnn.data import load_dataset

    data = dict(settings["data"])
    return load_dataset(data.pop("name"), root=data.pop("root", None), **data)


def shrink_method(settings: Settings) -> Settings:
    """The same method on a small graph, with few epochs and narrow layers where it has such options."""
    from experiments.baselines import baseline_options

    known = baseline_options(settings["method"])
    quick = {name: value for name, value in QUICK_OPTIONS.items() if name in known}
    return {**settings, "data": small_data(settings), "options": {**settings.get("options", {}), **quick}}


def small_data(settings: Settings) -> Settings:
    """A small graph of the same sort: lists and items, numbers to predict, or planted classes."""
    name = settings["data"]["name"]
    if name.startswith("diel"):
        return {"name": "diel_like", "scale": 0.001}
    if name in NUMBERS:
        return {"name": name, "num_graphs": 30, "longest": 4}
    return dict(SMALL_GRAPH)


def _problems(settings: Settings) -> list[str]:
    from experiments.baselines.table import check_baseline

    problems = unknown_keys(settings, {"kind": None, "data": None, "method": None, "options": None})
    try:
        check_baseline(settings.get("method", ""), settings.get("options", {}))
    except ValueError as error:
        problems.append(str(error))
    return problems


BASELINE = Kind(run_method, shrink_method, _problems)
