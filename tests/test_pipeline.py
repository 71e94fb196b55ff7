import pytest
import torch
from torch_geometric.data import Data

import gpnn
from gpnn import Graph
from gpnn.pipeline import Pipeline, Sizes, model_arguments, most_parts, resolve_options
from gpnn.run.known_nodes import fingerprint
from gpnn.schedule.make_schedule import (
    choose_hidden,
    choose_parts,
    choose_rounds,
    make_schedule,
    needs_partition,
    schedule_options,
)
from gpnn.train.recipe import Recipe, resolve_recipe


def test_sizes_stay_where_they_are_said(planted):
    assert Pipeline(k=4, rounds=7, hidden_channels=32).resolve(planted).sizes == Sizes(4, 7, 32)
    by_rule = Sizes(choose_parts(90), choose_rounds(gpnn.Graph.from_data(planted)), choose_hidden(3))
    assert Pipeline().resolve(planted).sizes == by_rule


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"schedule": "held_cut", "engine": "streamed"}, 9),
        ({"schedule": "auto", "rounds": 5, "engine": "streamed"}, 9),
        ({"schedule": "held_cut"}, 2),
        ({"schedule": "partitioned", "engine": "streamed"}, 2),
    ],
)
def test_parts_of_large_graphs_follow_what_subgraphs_do(planted, monkeypatch, settings, parts):
    monkeypatch.setattr("gpnn.schedule.make_schedule.LARGE_NODES", 90)
    monkeypatch.setattr("gpnn.schedule.make_schedule.HELD_NODES", 10)
    assert Pipeline(device="cpu", **settings).resolve(planted).k == parts


def test_parts_are_bounded_by_the_nodes_that_can_seed_them(planted):
    assert most_parts(planted, 100) == 15  # training nodes
    bare = planted.clone()
    del bare.y, bare.train_mask
    assert most_parts(bare, 100) == 90


def test_a_schedule_takes_what_it_knows():
    chain = Graph([0, 1, 2], [1, 2, 3], num_nodes=4).to_undirected()
    assert not needs_partition("synchronous")
    assert make_schedule("synchronous", chain, None, rounds=3).num_messages == 18
    assert list(schedule_options("sequential")) == ["root"]
    with pytest.raises(ValueError, match=r"the schedule 'synchronous' must be left out: it accepts none. Got intra"):
        make_schedule("synchronous", chain, None, rounds=3, options={"intra": 1})
    with pytest.raises(ValueError, match="`schedule` must be one of synchronous"):
        make_schedule("diagonal", chain, None, rounds=3)


def test_model_arguments_are_plain_and_follow_the_graph(planted, plan):
    arguments = model_arguments(planted, plan, 8, {"input": "both"}, seed=2)
    assert arguments == {
        "in_channels": 3,
        "hidden_channels": 8,
        "out_channels": 3,
        "num_rounds": 2,
        "num_edge_types": 1,
        "num_nodes": 90,
        "seed": 2,
        "input": "both",
        "concat": "features",
        "predict": "after",
        "activation": "identity",
        "readout": "last",
    }
    assert "num_nodes" not in model_arguments(planted, plan, 8, {})


def test_cells_per_kind_follow_the_schedule(planted, plan):
    options = {"sharing": "kind"}
    assert "kinds" not in model_arguments(planted, plan, 8, options)  # those of a model by default
    sequential = gpnn.lower(gpnn.schedule.sequential(planted, rounds=1))
    arguments = model_arguments(planted, sequential, 8, options)
    assert arguments["kinds"] == list(sequential.kinds)
    assert len(gpnn.nn.GPNN(**arguments).cell.cells) == len(sequential.kinds)
    assert "kinds" not in model_arguments(planted, sequential, 8, {})


def test_options_at_auto_follow_the_cell_and_the_features():
    linear = resolve_options({"cell": "linear", "concat": "auto"}, has_features=True)
    assert (linear["predict"], linear["concat"], linear["readout"]) == ("before", "none", "learned")
    assert linear["cell_options"] == {"alpha": 0.0}
    assert resolve_options({"cell": "linear", "cell_options": {"alpha": 0.3}}, has_features=True)["cell_options"] == {
        "alpha": 0.3
    }
    assert "cell_options" not in resolve_options({"cell": "linear", "readout": "last"}, has_features=True)
    recurrent = resolve_options({"cell": "gru"}, has_features=False)
    assert (recurrent["predict"], recurrent["concat"], recurrent["input"]) == ("after", "none", "embedding")


def test_fingerprints_tell_graphs_apart():
    one = Graph([0, 1], [1, 0], num_nodes=2)
    assert fingerprint(one) == fingerprint(Graph(torch.tensor([0, 1]), torch.tensor([1, 0]), num_nodes=2))
    assert fingerprint(one) != fingerprint(Graph([0, 1], [1, 0], num_nodes=3))
    assert fingerprint(one) != fingerprint(Graph([1, 0], [1, 0], num_nodes=2))


def test_weight_decay_follows_the_number_of_columns_where_nobody_says(planted):
    assert resolve_recipe(Recipe(weight_decay=0.1), planted).weight_decay == 0.1
    assert resolve_recipe(Recipe(weight_decay="auto"), planted).weight_decay == 5e-4
    wide = Data(x=torch.zeros(2, 16384))
    assert resolve_recipe(Recipe(weight_decay="auto"), wide).weight_decay == pytest.approx(5e-4 / 8)
    assert resolve_recipe(Recipe(weight_decay="auto"), Data(num_nodes=2)).weight_decay == 5e-4


def test_generations_are_chosen_by_the_labels(planted):
    assert resolve_recipe(Recipe(self_training=20), planted).self_training == 20
    numbers, several = Data(y=torch.rand(4)), Data(y=torch.ones(4, 2, dtype=torch.int64))
    found = [resolve_recipe(Recipe(self_training="auto"), each).self_training for each in (planted, numbers, several)]
    assert found == [150, 0, 0]
