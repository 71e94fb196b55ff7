"""Linear steps in one go give what aggregation gives step by step, gradients included."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gpnn.kernels import Operator, aggregate, linear
from gpnn.kernels.gated import for_gradients
from gpnn.kernels.linear import linear_steps
from tests.kernels.test_gated import problem


def step_by_step(
    operator: Operator, diagonal: Tensor | None, inputs: Tensor, repeat: int, initial: Tensor | None, alpha: float
) -> Tensor:
    rows, others = inputs[: operator.shape[0]], inputs[operator.shape[0] :]
    for _ in range(repeat):
        messages = aggregate(operator, torch.cat([rows, others]))
        rows = messages if diagonal is None else messages + diagonal[:, None].to(rows.dtype) * rows
        rows = rows if initial is None else torch.lerp(rows, initial, alpha)
    return rows


def scaled(operator: Operator, dtype: torch.dtype) -> Operator:
    """The same with factors of rows and columns, as a symmetric rule has them."""
    rows, columns = (torch.linspace(0.5, 1.5, size, dtype=dtype) for size in operator.shape)
    return replace(operator, row_scale=rows, col_scale=columns)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize("factors", [True, False])
@pytest.mark.parametrize("with_diagonal", [True, False])
@pytest.mark.parametrize("num_inputs", [150, 170])  # without held senders, and with some
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_it_equals_its_steps(dtype, tolerance, num_inputs, with_diagonal, factors, repeat, alpha):
    operator, diagonal, (inputs, *_) = problem(dtype, num_inputs=num_inputs)
    operator = scaled(operator, dtype) if factors else operator
    own, weights = diagonal if with_diagonal else None, torch.linspace(-1, 1, 750, dtype=dtype).view(150, 5)
    initial = torch.linspace(1, 3, 750, dtype=dtype).view(150, 5).requires_grad_() if alpha else None
    leaves = [inputs] if initial is None else [inputs, initial]
    found = [step(operator, own, inputs, repeat, initial, alpha) for step in (linear_steps, step_by_step)]
    torch.testing.assert_close(*found, rtol=tolerance, atol=tolerance)
    grads = [torch.autograd.grad((each * weights).sum(), leaves) for each in found]
    torch.testing.assert_close(*grads, rtol=tolerance, atol=tolerance)


def test_gradcheck():
    operator, diagonal, _ = problem(torch.float64, num_rows=6, num_inputs=9)
    inputs = torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: linear_steps(operator, diagonal, x, 2), inputs)
    assert torch.autograd.gradcheck(lambda x: linear_steps(operator, diagonal, x, 2, x[:6], 0.2), inputs)


def test_gradients_follow_from_no_values():
    operator, diagonal, (inputs, *_) = problem(torch.float64)
    expected = torch.autograd.grad(linear_steps(operator, diagonal, inputs, 2).sum(), inputs)
    nothing = torch.zeros(1, 1, dtype=torch.float64).expand(170, 5).requires_grad_()
    with for_gradients():
        out = linear_steps(operator, diagonal, nothing, 2)
    assert not out.any()
    torch.testing.assert_close(torch.autograd.grad(out.sum(), nothing), expected)


def test_other_types_and_large_blocks_go_step_by_step(monkeypatch):
    operator, diagonal, (inputs, *_) = problem(torch.float32)
    assert linear_steps(operator, diagonal, inputs.bfloat16(), 2) is None
    monkeypatch.setattr(linear, "MOST_BYTES", 100)
    assert linear_steps(operator, diagonal, inputs, 2) is None
