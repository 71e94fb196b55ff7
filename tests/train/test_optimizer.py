from itertools import pairwise

import pytest
import torch
from torch import nn

from gpnn.nn import GPNN
from gpnn.train.optimizer import LEARNING_RATE_SCHEDULES, OPTIMIZERS, learning_rate, make_optimizer


def decayed(model: nn.Module, decay_on: str) -> set[str]:
    optimizer = make_optimizer(model, weight_decay=0.1, decay_on=decay_on)
    ids = {id(p) for group in optimizer.param_groups if group["weight_decay"] for p in group["params"]}
    return {name for name, parameter in model.named_parameters() if id(parameter) in ids}


def test_weight_decay_spares_embeddings_unless_told():
    model = GPNN(3, 4, 2, input="both", num_nodes=5)
    names = {name for name, _ in model.named_parameters()}
    assert names - decayed(model, "all_but_embeddings") == {"embedding.weight"}
    assert decayed(model, "all") == names
    matrices = {name for name, parameter in model.named_parameters() if parameter.dim() > 1}
    assert decayed(model, "matrices") == matrices - {"embedding.weight"}


def test_weight_decay_is_the_gradient_of_half_the_squared_norm():
    model = nn.Linear(2, 1, bias=False)
    nn.init.constant_(model.weight, 3.0)
    optimizer = make_optimizer(model, "sgd", learning_rate=0.1, weight_decay=0.5)
    model(torch.zeros(1, 2)).sum().backward()
    optimizer.step()
    assert model.weight.tolist() == [[pytest.approx(3.0 - 0.1 * 0.5 * 3.0)] * 2]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_descends(name):
    model = nn.Linear(3, 1)
    optimizer = make_optimizer(model, name, learning_rate=0.05)
    x, losses = torch.eye(3), []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("schedule", LEARNING_RATE_SCHEDULES)
def test_every_schedule_starts_at_the_base_after_the_warm_up_and_never_rises(schedule):
    rate = learning_rate(0.1, schedule=schedule, warmup=3, epochs=20)
    rates = [rate(epoch) for epoch in range(1, 21)]
    assert rates[2] == rates[3] == pytest.approx(0.1)
    assert all(late <= early for early, late in pairwise(rates[3:]))
    assert all(value > 0 for value in rates)


def test_cosine_is_half_way_at_half_time():
    assert learning_rate(1.0, schedule="cosine", epochs=10)(6) == pytest.approx(0.5)


def test_a_model_without_parameters_is_refused():
    with pytest.raises(ValueError, match="must have parameters that require gradients"):
        make_optimizer(nn.ReLU())
