"""A whole gated step gives what aggregation and PyTorch's GRU give one after the other, gradients included."""

import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from gpnn.kernels import Operator, aggregate, cpu_gates
from gpnn.kernels.gated import (
    Piece,
    differentiated_at_once,
    for_gradients,
    gated_blocks,
    gated_step,
    gated_steps,
    storing_gates,
)

Leaves = tuple[Tensor, ...]
kept_step = partial(gated_step, kept=True)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_gates, "CHUNK_BYTES", 0)  # 64 rows, the least


def problem(dtype: torch.dtype, *, num_rows: int = 150, num_inputs: int = 170, weighted: bool = True, width: int = 5):
    """An operator (multi-edges, rows and columns without entries), a diagonal and the leaves: inputs, parameters."""
    random = torch.Generator().manual_seed(num_rows)
    rows, cols = torch.randint(num_rows, (600,), generator=random), torch.randint(num_inputs, (600,), generator=random)
    weight = torch.randn(600, generator=random, dtype=dtype) if weighted else None
    operator = Operator.from_edges(rows, cols, weight, (num_rows, num_inputs))
    shapes = [(num_inputs, width), (3 * width, width), (3 * width, width), (3 * width,), (3 * width,)]
    leaves = tuple(torch.randn(*shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes)
    return operator, torch.rand(num_rows, generator=random, dtype=dtype), leaves


def by_parts(operator: Operator, diagonal: Tensor | None, inputs: Tensor, parameters: Leaves) -> Tensor:
    own = inputs[: operator.shape[0]]
    messages = aggregate(operator, inputs)
    return torch.gru_cell(messages if diagonal is None else messages + diagonal[:, None] * own, own, *parameters)


def results(step, operator: Operator, diagonal: Tensor | None, leaves: Leaves) -> list[Tensor]:
    out = step(operator, diagonal, leaves[0], leaves[1:])
    weights = torch.linspace(-1, 1, out.numel()).view_as(out)
    return [out, *torch.autograd.grad((out.to(leaves[1].dtype) * weights).sum(), leaves)]


@pytest.mark.parametrize("step", [gated_step, kept_step])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("with_diagonal", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_it_equals_its_parts(dtype, tolerance, with_diagonal, weighted, step):
    operator, diagonal, leaves = problem(dtype, weighted=weighted)
    diagonal = diagonal if with_diagonal else None
    got, expected = (results(each, operator, diagonal, leaves) for each in (step, by_parts))
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=tolerance)


def test_a_factor_of_each_row():
    operator, diagonal, leaves = problem(torch.float64, weighted=False)
    operator = replace(operator, row_scale=torch.linspace(0, 2, operator.shape[0], dtype=torch.float64))
    got, expected = (results(step, operator, diagonal, leaves) for step in (gated_step, by_parts))
    torch.testing.assert_close(got, expected, atol=1e-12, rtol=1e-12)


def test_a_step_for_its_gradients_alone():
    operator, diagonal, leaves = problem(torch.float64)
    expected = results(gated_step, operator, diagonal, leaves)
    with for_gradients():
        got = results(gated_step, operator, diagonal, leaves)
    assert got[0].shape == expected[0].shape
    torch.testing.assert_close(got[1:], expected[1:], rtol=0, atol=0)


@pytest.mark.parametrize(("shift", "size"), [(200.0, 1.0), (12.0, 1.0), (-200.0, 1.0), (0.0, 100.0), (12.0, 1e4)])
def test_a_candidate_from_the_next_state_is_as_good_as_one_made_again(shift, size):
    operator, diagonal, leaves = problem(torch.float64)
    with torch.no_grad():
        leaves[0].mul_(size)
        leaves[3][5:10] += shift  # the gate z: of 1 − z, by which the candidate is divided, little or nothing is left
    exact = results(by_parts, operator, diagonal, leaves)[1:]
    rounded = tuple(leaf.detach().float().requires_grad_() for leaf in leaves)
    operator = replace(operator, weight=operator.weight.float())
    got, again = (results(step, operator, diagonal.float(), rounded)[1:] for step in (kept_step, gated_step))
    for value, other, true in zip(got, again, exact):
        assert (value - true).abs().max() <= 2 * (other - true).abs().max() + 1e-6 * true.abs().max()


@pytest.mark.parametrize("step", [gated_step, kept_step])
def test_gates_that_are_shut_let_nothing_through(step):
    operator, diagonal, leaves = problem(torch.float32)
    with torch.no_grad():
        leaves[0].mul_(1e4)
        leaves[3][5:10] += 1e6  # z is 1
    out, grad_inputs, *others = results(step, operator, diagonal, leaves)
    assert torch.equal(out, leaves[0][: len(out)])
    assert not torch.count_nonzero(grad_inputs[len(out) :])
    assert not any(torch.count_nonzero(other) for other in others)


@pytest.mark.parametrize("step", [gated_step, kept_step])
def test_gradients_are_those_of_finite_differences(step):
    operator, diagonal, leaves = problem(torch.float64, num_rows=4, num_inputs=6, width=2)
    assert torch.autograd.gradcheck(lambda *leaves: step(operator, diagonal, leaves[0], leaves[1:]), leaves)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("repeat", [1, 3])
def test_several_steps_of_some_rows(repeat, at_once):
    """The last step is taken for 130 of 150 rows, in chunks of 64; values and gradients are those of all rows."""
    operator, diagonal, leaves = problem(torch.float64)
    rows = torch.randperm(150, generator=torch.Generator().manual_seed(0))[:130]

    def by_definition(operator, diagonal, inputs, parameters):
        own, others = inputs[:150], inputs[150:]
        for _ in range(repeat):
            own = by_parts(operator, diagonal, torch.cat([own, others]), parameters)
        return own[rows]

    def at_first(*given):
        with differentiated_at_once() if at_once else nullcontext():
            return gated_steps(*given, repeat, rows)

    for ours, slow in zip(*(results(step, operator, diagonal, leaves) for step in (at_first, by_definition))):
        torch.testing.assert_close(ours, slow, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("stored", [True, False])
def test_a_first_step_that_has_begun(stored):
    """The states' share of the first gates is made before; gradients flow through it, in a second pass too."""
    operator, diagonal, leaves = problem(torch.float64)
    pieces = [Piece(operator, diagonal, torch.arange(170))]

    def blocks(begin, inputs, parameters):
        begun = inputs[:150] @ parameters[1].T if begin else None
        with storing_gates() if stored else nullcontext():
            return gated_blocks(pieces, inputs, parameters, 3, begun)

    outs = [blocks(begin, leaves[0], leaves[1:]) for begin in (True, False)]
    torch.testing.assert_close(*outs, rtol=1e-12, atol=1e-12)
    weights = torch.linspace(-1, 1, outs[0].numel(), dtype=torch.float64).view_as(outs[0])
    for _ in range(2):
        got, expected = (torch.autograd.grad((out * weights).sum(), leaves, retain_graph=True) for out in outs)
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)


def test_gradients_of_several_steps_of_some_rows_are_those_of_finite_differences():
    operator, diagonal, leaves = problem(torch.float64, num_rows=4, num_inputs=6, width=2)
    rows = torch.tensor([3, 1])
    assert torch.autograd.gradcheck(
        lambda *leaves: gated_steps(operator, diagonal, leaves[0], leaves[1:], 2, rows), leaves
    )


def test_states_in_bfloat16_are_rounded_and_nothing_else_is():
    operator, diagonal, leaves = problem(torch.float32)
    rounded = leaves[0].detach().bfloat16()
    narrow = (rounded.clone().requires_grad_(), *leaves[1:])
    wide = (rounded.float().requires_grad_(), *leaves[1:])
    got, expected = results(gated_step, operator, diagonal, narrow), results(by_parts, operator, diagonal, wide)
    assert got[0].dtype == got[1].dtype == torch.bfloat16
    assert got[2].dtype == torch.float32
    for value, exact in zip(got, expected):
        assert (value.float() - exact).abs().max() <= 0.02 * exact.abs().max()  # bfloat16 has 8 bits


def test_a_second_backward_pass_gives_the_same():
    operator, diagonal, leaves = problem(torch.float32)
    total = gated_step(operator, diagonal, leaves[0], leaves[1:]).sum()
    first = torch.autograd.grad(total, leaves, retain_graph=True)
    second = torch.autograd.grad(total, leaves)
    assert all(torch.equal(a, b) for a, b in zip(first, second))


@pytest.mark.parametrize(("step", "count"), [(kept_step, 3), (gated_step, 2)])
def test_it_keeps_states_and_messages_and_of_its_result_what_others_keep(step, count):
    operator, diagonal, leaves = problem(torch.float32)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        step(operator, diagonal, leaves[0], leaves[1:])
    assert sum(len(tensor) >= 150 for tensor in saved) == count


def test_threads_change_no_bit():
    operator, diagonal, leaves = problem(torch.float32, num_rows=4000, num_inputs=4000)
    alone = results(gated_step, operator, diagonal, leaves)
    torch.set_num_threads(2)
    try:
        shared = results(gated_step, operator, diagonal, leaves)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(alone, shared))


def test_buffers_of_a_thread_serve_inference_and_training_in_any_order(monkeypatch):
    monkeypatch.setattr(cpu_gates, "_buffers", threading.local())
    operator, diagonal, leaves = problem(torch.float64)
    with torch.inference_mode():
        first = gated_step(operator, diagonal, leaves[0], leaves[1:])
    for ours, slow in zip(*(results(step, operator, diagonal, leaves) for step in (gated_step, by_parts))):
        torch.testing.assert_close(ours, slow, rtol=1e-9, atol=1e-10)
    with torch.inference_mode():
        assert torch.equal(first, gated_step(operator, diagonal, leaves[0], leaves[1:]))


def test_under_inference_mode():
    operator, diagonal, leaves = problem(torch.float32, num_rows=4000, num_inputs=4000)
    expected = gated_step(operator, diagonal, leaves[0], leaves[1:])
    torch.set_num_threads(2)
    try:
        with torch.inference_mode():
            got = gated_step(operator, diagonal, leaves[0], leaves[1:])
    finally:
        torch.set_num_threads(1)
    assert torch.equal(got, expected)
