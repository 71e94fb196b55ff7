import json

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import gpnn
from gpnn.cli import app
from gpnn.config import Config
from gpnn.recipes import RECIPES, find_recipe


@pytest.mark.parametrize("name", RECIPES)
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


def test_the_default_configuration_is_that_of_the_default_recipe():
    assert Config() == Config.of("spread")
    assert Config.of("gated") != Config()


def test_an_unknown_recipe_lists_the_names():
    with pytest.raises(ValueError, match=r"`recipe` must be one of spread, gated\. Got 'magic'"):
        find_recipe("magic")
    with pytest.raises(ValueError, match=r"`recipe` must be one of spread, gated\. Got 'magic'"):
        gpnn.GPNNClassifier(recipe="magic").fit(gpnn.load_dataset("digits"))
