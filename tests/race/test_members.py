from dataclasses import replace

from gpnn.data.facts import GraphFacts
from gpnn.race import choose_members
from gpnn.recipes import RECIPES

FACTS = GraphFacts(100, 8, 1.0, 4.0, 30, 10.0, 0.8, 20)


def test_members_are_recipes_of_several_families(monkeypatch):
    names = choose_members(FACTS)
    assert {"spread", "gated"} <= set(names) <= set(RECIPES)
    monkeypatch.setitem(RECIPES, "gated", replace(RECIPES["gated"], suits=lambda facts: facts.num_columns > 8))
    assert "gated" not in choose_members(FACTS)


def test_many_rounds_need_many_labels_or_few_columns():
    wide = replace(FACTS, num_columns=1000)
    assert not {"gated", "deep"} & set(choose_members(wide))
    assert {"gated", "deep"} <= set(choose_members(replace(wide, num_labels=500)))


def test_averages_need_few_labels_and_neighbours_that_are_alike():
    few = replace(FACTS, assortativity=0.5)
    assert {"averaged", "smoothed"} <= set(choose_members(few))
    assert "smoothed" not in choose_members(replace(few, num_columns=2000))
    for other in (replace(few, labels_per_class=200.0), replace(few, assortativity=0.0), replace(few, num_columns=0)):
        assert not {"averaged", "smoothed"} & set(choose_members(other))


def test_where_neighbours_differ_their_average_comes_last():
    assert choose_members(replace(FACTS, assortativity=-0.1, rows_differ=True))[-2:] == ["spread", "raw"]
    assert "raw" not in choose_members(FACTS)
    assert choose_members(replace(FACTS, assortativity=None))[0] == "spread"


def test_what_needs_all_nodes_is_not_for_shards():
    assert "spread" in choose_members(FACTS, in_shards=True)
    assert "gated" not in choose_members(FACTS, in_shards=True)
    assert set(choose_members(FACTS, in_shards=True)) < set(choose_members(FACTS))


def test_without_validation_nodes_there_is_nothing_to_choose_by():
    assert choose_members(replace(FACTS, num_validation=0)) == ["spread"]
