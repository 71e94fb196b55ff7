"""Hooks of parameters fire once per pass under every runner, with the whole gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import gpnn
from gpnn.engine import Streamed
from gpnn.engine.blockwise_backward import without_hooks
from gpnn.engine.recompute import Recomputation
from gpnn.nn import GPNN, row_chunks
from tests.oracle.engine_cases import make_cell, make_schedule, multigraph, states

RUNNERS = ["streamed", Streamed(features="cpu")]


def hooked_pass(model: GPNN, loss: Callable[[GPNN], Tensor]) -> tuple[list[Tensor | None], list[int]]:
    """Gradients under a clamp that cuts most of them, and how often each parameter's hook was called."""
    calls = [0] * len(list(model.parameters()))

    def clamp(number: int, grad: Tensor) -> Tensor:
        calls[number] += 1
        return grad.clamp(-0.01, 0.01)

    for number, parameter in enumerate(model.parameters()):
        parameter.register_hook(lambda grad, number=number: clamp(number, grad))
    loss(model).backward()
    return [parameter.grad for parameter in model.parameters()], calls


def assert_once(runner: object, loss: Callable[[GPNN], Tensor], **options: object) -> None:
    fused, calls = hooked_pass(GPNN(5, 4, 3, num_rounds=2, **options).double(), loss)
    ours, times = hooked_pass(GPNN(5, 4, 3, num_rounds=2, runner=runner, **options).double(), loss)
    assert times == calls
    assert set(times) <= {0, 1}
    for mine, theirs in zip(ours, fused, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


def plan_of(schedule: str) -> gpnn.Plan:
    graph = multigraph(num_types=1)
    return gpnn.lower(graph, make_schedule(schedule, graph))


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("cell", ["gru", "lstm", "linear"])
@pytest.mark.parametrize("schedule", ["synchronous", "partitioned", "held_cut"])
def test_a_clamp_gives_the_gradients_of_the_fused_runner(monkeypatch, schedule, cell, runner):
    monkeypatch.setattr(row_chunks, "chunk_rows", lambda *widths: 3)
    plan, x = plan_of(schedule), states(width=5)
    assert_once(runner, lambda model: (model(x, plan) ** 2).sum(), cell=cell)


def test_a_loss_that_is_differentiated_by_blocks():
    plan, x, rows = plan_of("held_cut"), states(width=5), torch.arange(10)

    def loss(model: GPNN) -> Tensor:
        by_rows = model.loss(x, plan, rows, lambda scores, at: (scores**2).sum(), None)
        return (model(x, plan) ** 2).sum() if by_rows is None else by_rows

    assert_once(Streamed(features="cpu"), loss)


def test_hooks_are_set_aside_and_back():
    weight = torch.ones(2, requires_grad=True)
    handle = weight.register_hook(lambda grad: 2 * grad)
    with without_hooks([weight]):
        assert torch.autograd.grad(weight.sum(), weight)[0].tolist() == [1, 1]
    assert torch.autograd.grad(weight.sum(), weight)[0].tolist() == [2, 2]
    handle.remove()
    assert torch.autograd.grad(weight.sum(), weight)[0].tolist() == [1, 1]


@pytest.mark.parametrize("alpha", [0.0, 0.2])
@pytest.mark.parametrize("schedule", ["synchronous", "partitioned", "held_cut"])
def test_the_gradient_of_a_linear_cell_computes_no_state_again(monkeypatch, schedule, alpha):
    """And reads none; it is that of the fused runner."""
    plan, cell = plan_of(schedule), make_cell("linear", num_edge_types=1, alpha=alpha)
    leaves = [states().requires_grad_() for _ in range(2)]
    out = [
        gpnn.engine.propagate(cell, plan, leaf, runner=runner) for leaf, runner in zip(leaves, ("fused", "streamed"))
    ]

    def forbidden(*arguments: object) -> None:
        raise AssertionError("A state is computed again, or read.")

    monkeypatch.setattr(Recomputation, "do_phase", forbidden)
    monkeypatch.setattr("gpnn.engine.blockwise_backward.BlockwiseBackward._load_state", forbidden)
    for each in out:
        (each**2).sum().backward()
    torch.testing.assert_close(*(leaf.grad for leaf in leaves), rtol=0, atol=1e-12)
