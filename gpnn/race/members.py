"""Who takes part in a race, and its budget: seconds for all its trainings, and how they are shared among them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from gpnn.data.splits import GraphFacts
from gpnn.recipes import ALIKE, DEFAULT, RECIPES

AVERAGES = ("spread", "raw", "averaged", "smoothed")


def choose_members(facts: GraphFacts, *, in_shards: bool = False) -> list[str]:
    """The names of the recipes that suit a graph with these facts, in the order that decides where they are equal.

    That is the order of the table; where neighbours differ, the recipes that average them come last. Without
    validation nodes it is the default alone; `in_shards` leaves out what several processes cannot train.

    >>> from dataclasses import replace
    >>> facts = GraphFacts(10, 4, 1.0, 2.0, 6, 3.0, 0.9, 2, assortativity=0.8)
    >>> choose_members(facts)[0], choose_members(replace(facts, assortativity=0.0))[-1]
    ('spread', 'spread')
    """
    if not facts.num_validation:
        return [DEFAULT]
    names = [name for name, recipe in RECIPES.items() if recipe.suits(facts) and (recipe.in_shards or not in_shards)]
    differ = facts.assortativity is not None and facts.assortativity < ALIKE
    return sorted(names, key=lambda name: differ and name in AVERAGES)


PER_RECIPE, MOST = 8.0, 7200.0
PER_NODE, PER_NODE_FEW = 0.001, 0.01  # for each node beyond those of a small graph; the latter where labels are few
SMALL = 1800
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def default_budget(num_nodes: int, num_recipes: int, *, few_labels: bool) -> float:
    """8 seconds for each recipe, and 1 ms for each node beyond 1,800, or 10 ms; at most two hours.

    Args:
        num_nodes: N.
        num_recipes: that are to take part.
        few_labels: whether labels are so few that recipes pay which take hundreds of passes over all nodes; with many,
            the quick ones tell enough.

    >>> default_budget(1000, 4, few_labels=True), default_budget(61_800, 7, few_labels=False)
    (32.0, 116.0)
    """
    per_node = PER_NODE_FEW if few_labels else PER_NODE
    return min(MOST, PER_RECIPE * num_recipes + per_node * max(0, num_nodes - SMALL))


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


def allot(
    seconds: float, costs: Mapping[str, float], wanted: Mapping[str, int], weights: Mapping[str, float]
) -> dict[str, int]:
    """The epochs of each training when `seconds` are shared among them, at most those that it wants.

    What one does not need of its share goes to the others.

    Args:
        seconds: of all.
        costs: seconds of an epoch.
        wanted: epochs that each would take.
        weights: how large the share of each is beside the others'.

    >>> allot(10.0, {"quick": 0.1, "slow": 1.0}, {"quick": 20, "slow": 50}, {"quick": 1.0, "slow": 1.0})
    {'quick': 20, 'slow': 8}
    """
    given: dict[str, int] = {}
    order = sorted(wanted, key=lambda each: costs[each] * wanted[each] / weights[each])
    for place, name in enumerate(order):
        share = seconds * weights[name] / sum(weights[each] for each in order[place:])
        given[name] = int(min(wanted[name], share / costs[name] + 1e-9))
        seconds -= given[name] * costs[name]
    return {name: given[name] for name in wanted}
