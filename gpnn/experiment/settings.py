"""Settings: nested plain values, laid over each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Settings = dict[str, Any]
CELL_SEED = "@seed"  # a value that stands for the cell's seed, as in data = { split = "random", seed = "@seed" }


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


def put_seed(settings: Mapping[str, Any], seed: int) -> Settings:
    """The settings with the cell's seed wherever they say "@seed".

    >>> put_seed({"data": {"split": "random", "seed": "@seed"}}, 3)
    {'data': {'split': 'random', 'seed': 3}}
    """

    def replaced(value: Any) -> Any:
        if isinstance(value, Mapping):
            return put_seed(value, seed)
        return seed if value == CELL_SEED else value

    return {key: replaced(value) for key, value in settings.items()}
