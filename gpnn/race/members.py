"""choose_members: which recipes a race tries on a graph."""

from __future__ import annotations

from gpnn.data.facts import GraphFacts
from gpnn.recipes import RECIPES


def choose_members(facts: GraphFacts) -> list[str]:
    """The names of the recipes that suit a graph with these facts, in the order of the table.

    >>> facts = GraphFacts(10, 4, 1.0, 2.0, 6, 3.0, 0.9, 2)
    >>> choose_members(facts)[:2]
    ['spread', 'gated']
    """
    return [name for name, recipe in RECIPES.items() if recipe.suits(facts)]


def shard_members() -> list[str]:
    """The names of the recipes that several processes can train."""
    return [name for name, recipe in RECIPES.items() if recipe.in_shards]
