from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from gpnn.data.features import from_scipy
from gpnn.data.splits import GraphFacts
from gpnn.race import choose_members
from gpnn.race.budget import MOST, allot, default_budget, measured_seconds, nominal_seconds, parse_budget
from gpnn.recipes import RECIPES

FACTS = GraphFacts(100, 8, 30, 10.0, 20)


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
        assert "self_trained" not in choose_members(replace(other, can_self_train=True))


def test_one_class_per_node_in_one_process_is_learnt_by_self_training():
    few = replace(FACTS, assortativity=0.5)
    with_it, without = set(choose_members(replace(few, can_self_train=True))), set(choose_members(few))
    assert with_it ^ without == {"self_trained", "averaged"}
    assert "self_trained" in with_it


def test_many_sparse_columns_of_few_labels_have_a_recipe_that_comes_first():
    words = replace(FACTS, num_columns=5000, rows_differ=True)
    assert choose_members(words)[0] == "sparse"
    for other in ({"num_columns": 4000}, {"rows_differ": False}, {"labels_per_class": 200.0}, {"assortativity": 0.0}):
        assert "sparse" not in choose_members(replace(words, **other))
    assert choose_members(words, in_shards=True)[0] == "spread"


def test_mini_batches_need_few_labels_and_few_nodes():
    few = replace(FACTS, assortativity=0.5)
    for columns, name in ((2000, "sampled"), (500, "sampled_unit")):
        facts = replace(few, num_columns=columns)
        assert {"sampled", "sampled_unit"} & set(choose_members(facts)) == {name}
        for other in (replace(facts, labels_per_class=200.0), replace(facts, num_nodes=60_000)):
            assert name not in choose_members(other)


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


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("2", 2.0), (45, 45.0), ("auto", None)]
)
def test_a_time_in_words(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "0", "10d", True, "1e400h"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match=r"`budget` must be a time such as 90s, 10m or 1h, or auto\. Got "):
        parse_budget(text)


def test_the_default_follows_the_nodes_within_bounds():
    assert default_budget(10, 3) < default_budget(10, 4)
    assert default_budget(10**9, 1) == MOST
    assert default_budget(10, 4) < default_budget(2708, 4) < 60
    assert default_budget(20_000, 9) < 400


def test_what_a_quick_training_leaves_goes_to_the_slow_one():
    costs = {"slow": 1.0, "quick": 0.1, "slower": 2.0}
    given = allot(30.0, costs, {"slow": 100, "quick": 10, "slower": 100}, dict.fromkeys(costs, 1.0))
    assert given == {"slow": 14, "quick": 10, "slower": 7}
    assert list(given) == ["slow", "quick", "slower"]
    assert sum(costs[name] * given[name] for name in given) <= 30


def test_shares_follow_their_weights():
    costs, wanted = {"one": 1.0, "other": 1.0}, {"one": 100, "other": 100}
    assert allot(30.0, costs, wanted, {"one": 2.0, "other": 1.0}) == {"one": 20, "other": 10}
    assert allot(30.0, costs, {"one": 4, "other": 100}, {"one": 2.0, "other": 1.0}) == {"one": 4, "other": 26}


def test_nothing_is_given_beyond_what_is_wanted():
    assert allot(1e9, {"a": 0.5, "b": 0.1}, {"a": 7, "b": 0}, {"a": 1.0, "b": 1.0}) == {"a": 7, "b": 0}
    assert allot(0.0, {"a": 0.5}, {"a": 7}, {"a": 1.0}) == {"a": 0}


def test_an_epoch_of_no_time_to_speak_of():
    assert allot(10.0, {"quick": 5e-324}, {"quick": 20}, {"quick": 1.0}) == {"quick": 20}


def cost(data, name, **train):
    recipe = RECIPES[name]
    made = recipe.pipeline.assemble(data, recipe.train)
    return nominal_seconds(made.model, made.data, made.plan, replace(recipe.train, **train))


def test_every_recipe_has_a_cost_that_follows_its_work(planted):
    costs = {name: cost(planted, name) for name in RECIPES}
    assert all(0 < each < 1 for each in costs.values())
    assert costs["gated"] > costs["features"]
    assert cost(planted, "spread", passes=4, consistency=0.0) > costs["spread"]


def test_zeros_cost_nothing(planted):
    from scipy.sparse import csr_matrix

    wide = planted.clone()
    wide.x = torch.cat([planted.x.float(), torch.zeros(planted.num_nodes, 3000)], 1)
    full = planted.clone()
    full.x = torch.ones(planted.num_nodes, 3003)
    sparse = planted.clone()
    sparse.x = from_scipy(csr_matrix(wide.x.numpy()), sparse=True)
    assert cost(sparse, "spread") == cost(wide, "spread") < cost(full, "spread")


def test_mini_batches_of_sparse_rows_cost_what_their_entries_do(planted):
    wide, sparse = planted.clone(), planted.clone()
    wide.x = torch.ones(planted.num_nodes, 8000)
    sparse.x = torch.cat([torch.ones(planted.num_nodes, 2), torch.zeros(planted.num_nodes, 7998)], 1)
    assert cost(sparse, "sampled") < 0.5 * cost(wide, "sampled")
    assert cost(sparse, "sampled_unit") == cost(wide, "sampled_unit")  # whose columns are standardised


def test_a_solver_reads_what_its_training_nodes_and_their_neighbours_have(planted):
    more = planted.clone()
    more.train_mask = torch.ones_like(planted.train_mask)
    assert cost(planted, "columns") < cost(more, "columns")


def test_an_epoch_is_measured_and_the_model_stays(planted):
    recipe = RECIPES["spread"]
    made = recipe.pipeline.assemble(planted, recipe.train)
    before = [each.clone() for each in made.model.parameters()]
    assert measured_seconds(made.model, made.data, made.plan, recipe.train) > 0
    assert all(torch.equal(one, other) for one, other in zip(before, made.model.parameters()))


@pytest.mark.parametrize(("first", "expected"), [(8.0, 0.1), (80.0, 80.0)])
def test_a_first_epoch_that_compiles_kernels_is_not_what_an_epoch_costs(planted, monkeypatch, first, expected):
    def fit(*args, callbacks, **settings):
        records = [{"epoch": 1, "seconds": first}, {"epoch": 2, "seconds": 0.1}]
        done = 1 if callbacks[0].epoch(records[0]) else 2
        return SimpleNamespace(history=records[:done])

    monkeypatch.setattr("gpnn.race.budget.fit", fit)
    made = RECIPES["features"].pipeline.assemble(planted, RECIPES["features"].train)
    assert measured_seconds(made.model, made.data, made.plan, made.recipe) == expected
