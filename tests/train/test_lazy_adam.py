import torch
from torch import Tensor, nn

from gpnn.nn import GPNN
from gpnn.train.lazy_adam import LazyAdam
from gpnn.train.optimizer import make_optimizer

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
