from dataclasses import replace

import torch

from gpnn.data.features import from_scipy
from gpnn.race.cost import measured_seconds, nominal_seconds
from gpnn.recipes import RECIPES


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
