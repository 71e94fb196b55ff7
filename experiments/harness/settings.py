"""Settings: nested plain values, laid over each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

Settings = dict[str, Any]
CELL_SEED = "@seed"  # a value that stands for the cell's seed, as in data = { split = "random", seed = "@seed" }
FOLDER = "@folder"  # a path that starts in the experiment's own folder, as in data = { root = "@folder/data" }


def lay_over(*layers: Mapping[str, Any]) -> Settings:
    """Nested settings, later layers over earlier ones.

    >>> lay_over({"train": {"epochs": 1, "clip": 5}}, {"train": {"epochs": 2}})
    {'train': {'epochs': 2, 'clip': 5}}
    """
    merged: Settings = {}
    for layer in layers:
        for key, value in layer.items():
            below = merged.get(key)
            both = isinstance(value, Mapping) and isinstance(below, Mapping)
            merged[key] = lay_over(below, value) if both else value  # type: ignore[arg-type]
    return merged


def fill_in(settings: Mapping[str, Any], seed: int, folder: Path) -> Settings:
    """The settings with the cell's seed for "@seed" and the experiment's folder for "@folder".

    >>> fill_in({"data": {"name": "diel", "root": "@folder/data", "seed": "@seed"}}, 3, Path("experiments"))
    {'data': {'name': 'diel', 'root': 'experiments/data', 'seed': 3}}
    """

    def replaced(value: Any) -> Any:
        if isinstance(value, Mapping):
            return fill_in(value, seed, folder)
        if isinstance(value, str) and Path(value).parts[:1] == (FOLDER,):
            return str(folder.joinpath(*Path(value).parts[1:]))
        return seed if value == CELL_SEED else value

    return {key: replaced(value) for key, value in settings.items()}
