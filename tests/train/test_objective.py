from dataclasses import replace

import pytest
import torch

from gpnn.train import Recipe
from gpnn.train.loss import consistency_loss
from gpnn.train.objective import Examples, Objective
from gpnn.train.task import Classification


@pytest.fixture
def parts() -> tuple[Classification, Examples]:
    nodes = {"train": torch.tensor([0]), "val": torch.tensor([]), "test": torch.tensor([])}
    return Classification(2), Examples(None, torch.tensor([0, -1, -1]), nodes)


def test_lambda_rises_over_the_warm_up(parts):
    passes = [torch.zeros(3, 2), torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])]
    recipe = Recipe(passes=2, consistency=0.6, consistency_warmup=10)
    supervised = Objective.of(*parts, replace(recipe, consistency=0.0))
    plain = supervised.loss([each[supervised.rows] for each in passes], 1)
    extra = [float(Objective.of(*parts, recipe).loss(passes, epoch) - plain) for epoch in (1, 5, 10, 99)]
    full = 0.6 * float(consistency_loss(passes))
    assert extra == pytest.approx([0.1 * full, 0.5 * full, full, full], rel=1e-4)


def test_unlabelled_leaves_the_training_nodes_out(parts):
    assert Objective.of(*parts, Recipe(passes=2, consistency=1.0)).consistency_nodes is None
    recipe = Recipe(passes=2, consistency=1.0, consistency_on="unlabelled")
    assert Objective.of(*parts, recipe).consistency_nodes.tolist() == [1, 2]


def test_the_passes_are_averaged(parts):
    one = [torch.tensor([[1.0, 0.0]])]  # of the one training node
    two = [torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0]])]
    objective = Objective.of(*parts, Recipe())
    other = objective.loss([two[1]], 1)
    assert torch.allclose(objective.loss(two, 1), (objective.loss(one, 1) + other) / 2)


@pytest.mark.parametrize("weights", ["none", "balanced"])
def test_shares_make_up_the_loss(weights):
    nodes = {"train": torch.tensor([3, 0, 2, 1]), "val": torch.tensor([]), "test": torch.tensor([])}
    examples = Examples(None, torch.tensor([0, 1, 1, 1]), nodes)
    recipe = Recipe(passes=2, label_smoothing=0.1, class_weight=weights)
    objective = Objective.of(Classification(2), examples, recipe)
    logits = [torch.randn(4, 2, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
    pieces = (torch.tensor([1, 3]), torch.tensor([0, 2]))
    shares = [objective.share(each[piece], piece) for each in logits for piece in pieces]
    torch.testing.assert_close(torch.stack(shares).sum(), objective.loss(logits, 1))
