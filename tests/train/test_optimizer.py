from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from gpnn.nn import GPNN
from gpnn.train.optimizer import LEARNING_RATE_SCHEDULES, OPTIMIZERS, LazyAdam, learning_rate, make_optimizer


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


RATE = 0.05


def gradients(steps: int, rows: list[list[int]], shape: tuple[int, int] = (6, 3)) -> list[Tensor]:
    """A random gradient a step, zero outside that step's rows."""
    generator = torch.Generator().manual_seed(0)
    result = []
    for step in range(steps):
        gradient = torch.zeros(shape)
        touched = rows[step % len(rows)]
        gradient[touched] = torch.randn(len(touched), shape[1], generator=generator)
        result.append(gradient)
    return result


def table() -> nn.Parameter:
    return nn.Parameter(torch.linspace(-1, 1, 18).reshape(6, 3))


def lazy(parameter: nn.Parameter, **group: object) -> LazyAdam:
    return LazyAdam([{"params": [parameter], "rows": True, **group}], lr=RATE)


def walk(optimizer: torch.optim.Optimizer, parameter: nn.Parameter, steps: list[Tensor]) -> Tensor:
    for gradient in steps:
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


def test_it_is_sparse_adam_on_the_rows_with_a_gradient():
    steps = gradients(12, [[0, 2], [2, 5], [], [1, 2, 5]])
    ours, theirs = table(), table()
    walk(lazy(ours), ours, steps)
    walk(torch.optim.SparseAdam([theirs], lr=RATE), theirs, [step.to_sparse(1) for step in steps])
    torch.testing.assert_close(ours, theirs)
    assert torch.equal(ours[3:5], table()[3:5])
    assert not torch.equal(ours[:3], table()[:3])


def test_it_is_adam_where_every_row_has_a_gradient():
    steps = gradients(12, [[0, 1, 2, 3, 4, 5]])
    for decay in (0.0, 0.1):
        ours, theirs = table(), table()
        walk(lazy(ours, weight_decay=decay), ours, steps)
        walk(torch.optim.Adam([theirs], lr=RATE, weight_decay=decay), theirs, steps)
        torch.testing.assert_close(ours, theirs)


def test_a_row_without_a_gradient_keeps_weights_and_moments():
    parameter = table()
    optimizer = lazy(parameter, weight_decay=0.1)
    walk(optimizer, parameter, gradients(3, [[0, 1]]))
    before = parameter.detach().clone(), *(optimizer.state[parameter][key].clone() for key in ("exp_avg", "exp_avg_sq"))
    walk(optimizer, parameter, gradients(3, [[1, 4]]))
    after = parameter.detach(), *(optimizer.state[parameter][key] for key in ("exp_avg", "exp_avg_sq"))
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old[0], new[0])
        assert not torch.equal(old[1], new[1])


def test_other_groups_take_adams_step():
    steps = gradients(5, [[0, 2], [1]])
    ours, theirs = table(), table()
    walk(LazyAdam([ours], lr=RATE), ours, steps)
    walk(torch.optim.Adam([theirs], lr=RATE), theirs, steps)
    assert torch.equal(ours, theirs)


def test_the_gradient_is_left_as_it_was():
    parameter = table()
    gradient = gradients(1, [[3]])[0]
    walk(lazy(parameter), parameter, [gradient])
    assert torch.equal(parameter.grad, gradient)


def test_the_state_is_dense_tensors_that_carry_on_to_the_same_bits():
    steps = gradients(8, [[0, 2], [2, 5]])
    whole, first = table(), table()
    walk(lazy(whole), whole, steps)
    optimizer = lazy(first)
    walk(optimizer, first, steps[:4])
    state = optimizer.state_dict()["state"][0]
    assert {key: list(value.shape) for key, value in state.items()} == {
        "step": [],
        "exp_avg": [6, 3],
        "exp_avg_sq": [6, 3],
    }
    second = nn.Parameter(first.detach().clone())
    resumed = lazy(second)
    resumed.load_state_dict({"state": {0: state}, "param_groups": resumed.state_dict()["param_groups"]})
    walk(resumed, second, steps[4:])
    assert torch.equal(whole, second)


def test_embeddings_and_nothing_else_move_by_rows():
    model = GPNN(3, 4, 2, input="both", num_nodes=5)
    for decay_on in ("all_but_embeddings", "matrices", "all"):
        optimizer = make_optimizer(model, "lazy_adam", decay_on=decay_on)
        rows = [parameter for group in optimizer.param_groups if group["rows"] for parameter in group["params"]]
        assert [id(parameter) for parameter in rows] == [id(model.embedding.weight)]
        assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))
