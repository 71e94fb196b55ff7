"""Kind: what one cell does with its settings, and a form of it that takes a moment."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.harness.settings import Settings

Metrics = dict[str, Any]

SMALL_GRAPH: Settings = {
    "name": "planted",
    "num_nodes": 120,
    "num_classes": 4,
    "num_features": 24,
    "label_rate": 0.2,
}


@dataclass(frozen=True)
class Kind:
    """One kind of cell.

    Attributes:
        run: settings and seed to flat metrics, fractions and seconds; "test_…" ones are dropped where a table
            measures validation.
        shrink: settings to those of the quick form: a check of the pipeline in a second or less.
        problems: a sentence for each setting that is not one.
    """

    run: Callable[[Settings, int], Metrics]
    shrink: Callable[[Settings], Settings]
    problems: Callable[[Settings], list[str]]


def unknown_keys(settings: Mapping[str, Any], known: Mapping[str, Callable[..., Any] | None]) -> list[str]:
    """A sentence for each section, and each key of a section, that a kind does not know.

    Args:
        settings: of a cell.
        known: section to the function whose keyword arguments are its keys; None: any keys, or no section but a value.
    """
    problems = []
    for section, value in settings.items():
        if section not in known:
            problems.append(f"A section must be one of {', '.join(known)}. Got {section!r}.")
        elif (function := known[section]) is not None:
            keys = list(inspect.signature(function).parameters)
            problems += [f"`{section}` takes {', '.join(keys)}. Got {key!r}." for key in value if key not in keys]
    return problems
