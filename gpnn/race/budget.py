"""The budget of a race: seconds for all its trainings, and how they are shared among them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

SECONDS_PER_NODE, SMALL = 0.02, 1800  # for each node beyond those of a small graph
PER_RECIPE, MOST = 8.0, 7200.0
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def default_budget(num_nodes: int, num_recipes: int) -> float:
    """8 seconds for each recipe, and 20 ms for each node beyond 1,800, at most two hours.

    >>> default_budget(1000, 4), default_budget(20_000, 6)
    (32.0, 412.0)
    """
    return min(MOST, PER_RECIPE * num_recipes + SECONDS_PER_NODE * max(0, num_nodes - SMALL))


def parse_budget(value: Any) -> float | None:
    """Seconds of "90s", "10m", "1.5h" or a number; None for "auto".

    Raises:
        ValueError: when it is no time.

    >>> parse_budget("10m"), parse_budget(90), parse_budget("auto")
    (600.0, 90.0, None)
    """
    if value == "auto":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([smh]?)", str(value).strip())
    seconds = float(found[1]) * UNITS[found[2] or "s"] if found and not isinstance(value, bool) else 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"`budget` must be a time such as 90s, 10m or 1h, or auto. Got {value!r}.")
    return seconds


def allot(seconds: float, costs: Mapping[str, float], wanted: Mapping[str, int]) -> dict[str, int]:
    """The epochs of each training when `seconds` are shared among them, at most those that it wants.

    Shares are equal; what one does not need goes to the others.

    Args:
        seconds: of all.
        costs: seconds of an epoch.
        wanted: epochs that each would take.

    >>> allot(10.0, {"quick": 0.1, "slow": 1.0}, {"quick": 20, "slow": 50})
    {'quick': 20, 'slow': 8}
    """
    given: dict[str, int] = {}
    for left, name in enumerate(sorted(wanted, key=lambda each: costs[each] * wanted[each]), -len(wanted)):
        share = seconds / -left
        given[name] = int(min(wanted[name], share / costs[name] + 1e-9))
        seconds -= given[name] * costs[name]
    return {name: given[name] for name in wanted}
