import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import gpnn
from gpnn.cli import app
from gpnn.config import Config
from gpnn.data.splits import GraphFacts
from gpnn.engine.blockwise_backward import is_one_blockwise_round
from gpnn.race import choose_members
from gpnn.recipes import LARGE_GRAPH, RECIPES, find_recipe
from tests.oracle.parameters import rest_thorough

pytestmark = pytest.mark.filterwarnings("ignore:.*fewer than 5 training nodes")  # of a small graph


@pytest.mark.parametrize("name", rest_thorough(RECIPES, ["spread", "gated"]))
def test_a_recipe_is_the_same_in_python_and_on_the_command_line(name, tmp_path):
    """The same weights and metrics, to the bit."""
    settings = ["train.epochs=4", "seed=2", "schedule.rounds=2"]
    words = ["train", "digits", f"recipe={name}", *settings, "--out", str(tmp_path / "run"), "--no-report"]
    assert CliRunner().invoke(app, words).exit_code == 0
    classifier = gpnn.GPNNClassifier(recipe=name, epochs=4, seed=2, rounds=2).fit(gpnn.load_dataset("digits"))
    saved, ours = load_file(tmp_path / "run" / "model.safetensors"), classifier.model_.state_dict()
    assert set(saved) == set(ours)
    assert all(torch.equal(saved[key], ours[key]) for key in saved)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert {key: metrics[key] for key in classifier.metrics_ if key != "seconds"} == {
        key: value for key, value in classifier.metrics_.items() if key != "seconds"
    }


def test_every_recipe_can_be_assembled_and_says_what_it_is(planted):
    for named in RECIPES.values():
        made = named.pipeline.assemble(planted, named.train)
        assert made.model(planted.x, made.plan).shape == (planted.num_nodes, 3)
        assert named.about


def test_the_recipe_of_large_graphs_keeps_no_state_of_all_nodes(planted):
    named = RECIPES["large"]
    made = named.pipeline.assemble(planted, named.train)
    assert is_one_blockwise_round(made.plan)
    facts = GraphFacts.of(planted)
    assert "large" not in choose_members(facts)
    assert "large" in choose_members(replace(facts, num_nodes=LARGE_GRAPH))


def test_the_default_configuration_is_that_of_the_default_recipe():
    assert Config() == Config.of("spread")
    assert Config.of("gated") != Config()


def test_an_unknown_recipe_lists_the_names():
    listed = rf"`recipe` must be one of {', '.join(RECIPES)}\. Got 'magic'"
    with pytest.raises(ValueError, match=listed):
        find_recipe("magic")
    with pytest.raises(ValueError, match=listed):
        gpnn.GPNNClassifier(recipe="magic").fit(gpnn.load_dataset("digits"))


def test_the_recipe_of_features_sends_nothing(planted):
    named = RECIPES["features"]
    made = named.pipeline.assemble(planted, named.train)
    other = planted.clone()
    other.edge_index = planted.edge_index[:, :7].flip(0)
    made.model.eval()
    assert made.plan.num_messages == 0
    assert torch.equal(made.model(planted.x, made.plan), made.model(other.x, named.pipeline.lower(other, None)))


@pytest.mark.parametrize("estimator", [gpnn.GPNNClassifier, gpnn.GPNNRegressor])
def test_columns_are_saved_and_predict_on_a_graph_that_has_grown(estimator, planted, tmp_path):
    data = planted.clone()
    if estimator is gpnn.GPNNRegressor:
        data.y = data.x.sum(1).double() + data.y
    fitted = estimator(recipe="columns").fit(data)
    before = fitted.predict(data)
    fitted.save(tmp_path)
    assert not list(tmp_path.glob("*.pkl"))
    again = estimator.load(tmp_path)
    assert (again.predict(data) == before).all()
    grown = data.clone()
    grown.x = torch.cat([data.x, data.x[:5]])
    grown.edge_index = torch.cat([data.edge_index, torch.tensor([[90, 91], [92, 93]])], 1)
    del grown.y, grown.train_mask, grown.val_mask, grown.test_mask
    grown.num_nodes = 95
    found = again.predict(grown)
    assert found.shape == (95,)
    assert (found[:90] == before).mean() == 1.0  # no edge joins the new nodes to the known ones


def test_columns_need_one_process(planted):
    with pytest.raises(ValueError, match=r"Several processes train the model 'gpnn' alone. Got 'columns'"):
        RECIPES["columns"].pipeline.assemble_shard(None, planted, None, RECIPES["columns"].train)


def test_columns_take_options_of_their_own(planted):
    with pytest.raises(ValueError, match=r"option of the model 'columns' must be one of method, labels. Got cell"):
        gpnn.GPNNClassifier(recipe="columns", cell="gru").fit(planted)
    with pytest.raises(ValueError, match=r"`method` must be one of auto, linear, trees. Got 'forest'"):
        gpnn.GPNNClassifier(recipe="columns", model_options={"method": "forest"}).fit(planted)
    linear = gpnn.GPNNClassifier(recipe="columns", model_options={"method": "linear", "labels": False}).fit(planted)
    assert linear.model_.kinds == ("far", "unlabelled", "means", "own")


@pytest.mark.parametrize("name", ["features", "columns"])
def test_recipes_that_send_no_messages_give_no_advice_on_directions(name, planted):
    """A warning would fail the test."""
    directed = planted.clone()
    directed.edge_index = planted.edge_index[:, ::3]
    directed.edge_type = torch.arange(directed.num_edges) % 2
    gpnn.GPNNClassifier(recipe=name, epochs=2).fit(directed)
