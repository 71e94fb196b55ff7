"""A whole step of a convolution gives what aggregation and torch's operations give, gradients included."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from gpnn.kernels import Operator, aggregate, cpu_convolution
from gpnn.kernels.convolution import Convolution, convolution_step, convolution_update
from gpnn.kernels.gated import for_gradients

Leaves = tuple[Tensor, ...]
FORMS = [
    (Convolution("relu"), False),
    (Convolution("relu"), True),
    (Convolution("tanh"), True),
    (Convolution("tanh", residual=True), True),
    (Convolution("relu", norm=True), False),
    (Convolution("relu", norm=True, residual=True), True),
]
FORM_NAMES = ["gcn", "sage", "mlp", "added", "normed gcn", "residual"]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_convolution, "CHUNK_BYTES", 0)  # 64 rows, the least


def oracle(form: Convolution, messages: Tensor, state: Tensor, parameters: Leaves) -> Tensor:
    """The update, operation by operation."""
    weight, bias, *own = parameters
    sums = messages @ weight + bias
    if own:
        sums = sums + visible(form, state) @ own[0]
    out = sums.relu() if form.activation == "relu" else sums.tanh()
    return state + out if form.residual else out


def visible(form: Convolution, state: Tensor) -> Tensor:
    return layer_norm(state, state.shape[1:]) if form.norm else state


def by_parts(
    form: Convolution, operator: Operator, diagonal: Tensor | None, inputs: Tensor, parameters: Leaves
) -> Tensor:
    sent, own = visible(form, inputs), inputs[: operator.shape[0]]
    messages = aggregate(operator, sent)
    messages = messages if diagonal is None else messages + diagonal[:, None] * sent[: len(own)]
    return oracle(form, messages, own, parameters)


def problem(own: bool, dtype: torch.dtype = torch.float64, width: int = 5) -> tuple[Operator, Tensor, Leaves]:
    """An operator with multi-edges and empty rows, a diagonal, and the leaves: inputs, parameters."""
    random = torch.Generator().manual_seed(1)
    rows, cols = (torch.randint(count, (600,), generator=random) for count in (150, 170))
    weight = torch.randn(600, generator=random, dtype=dtype)
    operator = Operator.from_edges(rows, cols, weight, (150, 170))
    shapes = [(170, width), (width, width), (width,), *([(width, width)] if own else [])]
    leaves = tuple(torch.randn(*shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes)
    return operator, torch.rand(150, generator=random, dtype=dtype), leaves


def results(step, form: Convolution, operator: Operator, diagonal: Tensor | None, leaves: Leaves) -> list[Tensor]:
    out = step(form, operator, diagonal, leaves[0], leaves[1:])
    weights = torch.linspace(-1, 1, out.numel()).view_as(out)
    return [out, *torch.autograd.grad((out.to(leaves[1].dtype) * weights).sum(), leaves)]


@pytest.mark.parametrize(("form", "own"), FORMS, ids=FORM_NAMES)
@pytest.mark.parametrize("with_diagonal", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_it_equals_its_parts(dtype, tolerance, with_diagonal, form, own):
    operator, diagonal, leaves = problem(own, dtype)
    operator = replace(operator, row_scale=torch.linspace(0, 2, operator.shape[0], dtype=dtype))
    diagonal = diagonal if with_diagonal else None
    got, expected = (results(each, form, operator, diagonal, leaves) for each in (convolution_step, by_parts))
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("form", "own"), FORMS, ids=FORM_NAMES)
def test_the_update_alone(form, own):
    _, _, (inputs, *parameters) = problem(own)
    messages = torch.randn(150, 5, dtype=torch.float64, requires_grad=True)
    leaves = [messages, inputs, *parameters]
    found = []
    for update in (convolution_update, oracle):
        out = update(form, messages, inputs[:150], tuple(parameters))
        found.append([out, *torch.autograd.grad((out + 0 * inputs[:150]).square().sum(), leaves)])
    torch.testing.assert_close(*found, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(("form", "own"), FORMS[2:4], ids=FORM_NAMES[2:4])  # smooth, so that differences are gradients
def test_gradients_are_those_of_differences(form, own):
    _, diagonal, leaves = problem(own, width=2)
    inputs, *parameters = (leaf.detach()[:40].requires_grad_() if leaf.shape[0] == 170 else leaf for leaf in leaves)
    few = Operator.from_edges(*torch.randint(30, (2, 60), generator=torch.Generator().manual_seed(0)), None, (30, 40))
    step = lambda inputs, *rest: convolution_step(form, few, diagonal[:30], inputs, rest)  # noqa: E731
    assert torch.autograd.gradcheck(step, (inputs, *parameters))


@pytest.mark.parametrize(("form", "own"), FORMS, ids=FORM_NAMES)
def test_states_in_bfloat16(form, own):
    operator, diagonal, (inputs, *parameters) = problem(own, torch.float32, width=16)
    expected = results(by_parts, form, operator, diagonal, (inputs, *parameters))
    narrow = inputs.detach().bfloat16().requires_grad_()
    got = results(convolution_step, form, operator, diagonal, (narrow, *parameters))
    assert got[0].dtype == got[1].dtype == torch.bfloat16
    for one, other in zip(got, expected, strict=True):
        assert float(((one - other).norm() / other.norm()).detach()) < 0.15  # a sum near 0 may fall on its other side


def test_a_step_for_its_gradients_alone():
    form, own = FORMS[-1]
    operator, diagonal, leaves = problem(own)
    expected = results(convolution_step, form, operator, diagonal, leaves)
    with for_gradients():
        got = results(convolution_step, form, operator, diagonal, leaves)
    assert got[0].shape == expected[0].shape
    torch.testing.assert_close(got[1:], expected[1:], rtol=0, atol=0)


def test_it_is_differentiated_again():
    form, own = FORMS[-1]
    operator, diagonal, leaves = problem(own)
    out = convolution_step(form, operator, diagonal, leaves[0], leaves[1:])
    first = torch.autograd.grad(out.sum(), leaves, retain_graph=True)
    torch.testing.assert_close(first, torch.autograd.grad(out.sum(), leaves), rtol=0, atol=0)


@pytest.mark.parametrize(("form", "own"), FORMS, ids=FORM_NAMES)
def test_not_a_number_stays_one(form, own):
    """So that a training that diverges is seen to."""
    _, _, (inputs, *parameters) = problem(own)
    messages = torch.ones(150, 5, dtype=torch.float64)
    messages[7, 2] = torch.nan
    out = convolution_update(form, messages, inputs[:150], tuple(parameters))
    assert out.isnan().any(1).nonzero().flatten().tolist() == [7]
