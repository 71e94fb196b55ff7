"""choose_members: which recipes a race tries on a graph."""

from __future__ import annotations

from gpnn.data.facts import GraphFacts
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
