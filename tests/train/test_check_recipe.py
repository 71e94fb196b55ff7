from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

import gpnn
from gpnn.nn import GPNN
from gpnn.nn.column_model import ColumnModel
from gpnn.recipes import RECIPES
from gpnn.train import Recipe
from gpnn.train.check_recipe import check_recipe

AGAIN, BATCH = Recipe(self_training=5), Recipe(batch=10)
WEIGHTS = Recipe(class_weight=(1.0, 2.0))


@pytest.fixture(scope="module")
def planted() -> Data:
    return gpnn.load_dataset("planted", num_nodes=200)


def test_self_training_needs_one_class_per_node(planted):
    numbers = Data(x=planted.x, y=torch.linspace(0, 1, 200), num_nodes=200)
    several = Data(x=planted.x, y=torch.eye(3)[planted.y % 3], num_nodes=200)
    for data, found in ((numbers, "a number per node"), (several, "3 labels")):
        with pytest.raises(ValueError, match=f"needs one class per node. Got {found}"):
            check_recipe(AGAIN, GPNN(500, 8, 3), data)
        for recipe in (Recipe(), Recipe(self_training="auto")):
            check_recipe(recipe, GPNN(500, 8, 3), data)


def test_self_training_needs_gradients_in_one_process(planted):
    model = GPNN(500, 8, 10, predict="features")
    check_recipe(AGAIN, model, planted)
    with pytest.raises(ValueError, match=r"needs all nodes in one process\. Got 2 processes"):
        check_recipe(AGAIN, model, planted, 2)
    with pytest.raises(ValueError, match="needs a model that learns by gradients"):
        check_recipe(AGAIN, ColumnModel(500, 10), planted)


def test_mini_batches_need_features_that_propagate_in_one_process(planted):
    model = GPNN(500, 8, 10, predict="features")
    check_recipe(BATCH, model, planted)
    without = Data(y=planted.y, num_nodes=200)
    for other, data, num_processes in ((GPNN(500, 8, 10), planted, 1), (model, without, 1), (model, planted, 2)):
        with pytest.raises(ValueError, match="needs a model with `predict` 'features', features, and one process"):
            check_recipe(BATCH, other, data, num_processes)
    with pytest.raises(ValueError, match=r"needs a GPNN\. Got ColumnModel"):
        check_recipe(BATCH, ColumnModel(500, 10), planted)


def test_each_class_has_a_weight(planted):
    with pytest.raises(ValueError, match=r"one weight for each of the 10 classes\. Got 2"):
        check_recipe(WEIGHTS, GPNN(500, 8, 10), planted)
    for weight in ((1.0,) * 10, "balanced"):
        check_recipe(replace(WEIGHTS, class_weight=weight), GPNN(500, 8, 10), planted)
    numbers = Data(x=planted.x, y=torch.linspace(0, 1, 200), num_nodes=200)
    with pytest.raises(ValueError, match="must be 'none' in a regression"):
        check_recipe(Recipe(class_weight="balanced"), GPNN(500, 8, 3), numbers)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("columns", {"self_training": 5}), ("spread", {"batch": 10}), ("spread", {"class_weight": (1.0, 2.0)})],
)
def test_a_pipeline_refuses_before_a_run_begins(planted, name, changes):
    recipe = replace(RECIPES[name].train, **changes)
    with pytest.raises(ValueError, match=next(iter(changes))):
        RECIPES[name].pipeline.assemble(planted, recipe)
