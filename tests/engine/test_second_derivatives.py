"""Second derivatives of every cell under every runner: right, or refused with one sentence; never wrong in silence."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import SAGEConv

import gpnn
from gpnn.engine import Streamed, propagate
from gpnn.kernels.autograd import SECOND_DERIVATIVES
from gpnn.nn import GPNN, UPDATES, Scheduled
from tests.oracle.engine_cases import SCHEDULES, make_cell, make_schedule, multigraph, states
from tests.oracle.sharded_cases import second_derivative_case

RUNNERS = {"fused": "fused", "streamed": "streamed", "bf16": Streamed(dtype=torch.bfloat16)}


def outcome(loss: Callable[[Tensor], Tensor], state: Tensor) -> str:
    """ "refused" or "right" of a Hessian-vector product, both ways of taking it; anything else fails."""
    along = states(seed=7)[:, : state.shape[1]]

    def by_grad() -> Tensor:
        leaf = state.clone().requires_grad_()
        (first,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
        return torch.autograd.grad((first * along).sum(), leaf)[0]

    def by_functional() -> Tensor:
        return torch.autograd.functional.hvp(loss, state, along)[1]

    outcomes = {_outcome(way, loss, state, along) for way in (by_grad, by_functional)}
    assert len(outcomes) == 1
    return outcomes.pop()


def _outcome(way: Callable[[], Tensor], loss: Callable[[Tensor], Tensor], state: Tensor, along: Tensor) -> str:
    try:
        product = way()
    except RuntimeError as error:
        return "refused" if str(error) == SECOND_DERIVATIVES else str(error)
    torch.testing.assert_close(product, _difference(loss, state, along), rtol=1e-6, atol=1e-7)
    return "right"


def _difference(loss: Callable[[Tensor], Tensor], state: Tensor, along: Tensor, step: float = 1e-5) -> Tensor:
    """The Hessian-vector product by central differences of first derivatives."""
    grads = []
    for sign in (1, -1):
        leaf = (state + sign * step * along).requires_grad_()
        grads += torch.autograd.grad(loss(leaf), leaf)
    return (grads[0] - grads[1]) / (2 * step)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize(("message", "aggregate"), [("identity", "mean"), ("mlp", "sum"), ("linear", "max")])
def test_every_cell(update: str, message: str, aggregate: str, runner: str) -> None:
    plan = gpnn.lower(graph := multigraph(), make_schedule("partitioned", graph))
    cell = make_cell(update, message, aggregate)

    def run(state: Tensor) -> Tensor:
        return propagate(cell, plan, state, runner=RUNNERS[runner])

    assert outcome(lambda state: run(state).sum(), states()) == "refused"  # a constant gradient arrives
    assert outcome(lambda state: run(state).square().sum(), states()) == "refused"


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule(name: str) -> None:
    plan = gpnn.lower(graph := multigraph(num_types=1), make_schedule(name, graph))
    cell = make_cell("gru", num_edge_types=plan.num_edge_types)
    assert outcome(lambda state: propagate(cell, plan, state).sum(), states()) == "refused"


@pytest.mark.parametrize("runner", ["fused", "streamed"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_convolutions_are_right_where_they_are_torchs_own(name: str, runner: str) -> None:
    plan = gpnn.lower(graph := multigraph(weighted=False), make_schedule(name, graph))
    torch.manual_seed(0)
    conv = Scheduled(SAGEConv(3, 3), local=True).double()
    expected = "right" if (name, runner) == ("synchronous", "fused") else "refused"
    assert outcome(lambda state: conv(state, plan, runner=runner).tanh().sum(), states()) == expected


@pytest.mark.parametrize("cell", UPDATES)
def test_whole_models_by_their_parameters(cell: str) -> None:
    plan = gpnn.lower(graph := multigraph(), make_schedule("partitioned", graph))
    model = GPNN(3, 4, 2, cell=cell, num_edge_types=plan.num_edge_types).double()
    with pytest.raises(RuntimeError, match="Second derivatives are not supported"):
        model(states(), plan).square().sum().backward(create_graph=True)
    model(states(), plan).square().sum().backward()


@pytest.mark.parametrize("runner", ["fused", "streamed"])
@pytest.mark.parametrize("name", ["partitioned", "synchronous"])
@pytest.mark.thorough
def test_several_processes(processes, name: str, runner: str) -> None:  # type: ignore[no-untyped-def]
    assert processes(second_derivative_case, name, runner, size=2) == [SECOND_DERIVATIVES] * 2
