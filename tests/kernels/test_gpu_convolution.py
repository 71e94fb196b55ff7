"""The Triton kernels of a convolution give what torch's operations give, gradients included."""

import pytest
import torch
from torch import Tensor

from gpnn.kernels.convolution import Convolution
from gpnn.kernels.gated import StepUse
from gpnn.kernels.update_rule import RowUpdate
from tests.kernels.test_convolution import FORM_NAMES, FORMS, oracle, visible
from tests.kernels.test_gpu_gru import error, results, scaled_operator, split_on_device
from tests.kernels.triton_device import DEVICE, INTERPRETED, needs_triton

pytestmark = needs_triton
needs_bf16 = pytest.mark.skipif(INTERPRETED, reason="Triton's interpreter has no product of bf16")
of_forms = pytest.mark.parametrize(("form", "own"), FORMS, ids=FORM_NAMES)


@pytest.fixture(autouse=True, params=[set(), {2, 4}], ids=["products", "one pass"])
def _small_tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks, with the gradients of weights by torch's products and by one kernel."""
    from gpnn.kernels import gpu_convolution

    monkeypatch.setattr(gpu_convolution, "CHUNK_BYTES", 1 << 16)
    monkeypatch.setattr(gpu_convolution, "ONE_PASS", request.param)
    if INTERPRETED:
        monkeypatch.setattr(gpu_convolution, "SHARES", 3)
        monkeypatch.setitem(gpu_convolution.PRODUCTS, "STEP", 16)
        monkeypatch.setitem(gpu_convolution.TILE, "ROWS", 16)


def draw(own: bool, width: int, rows: int) -> tuple[list[Tensor], Tensor]:
    """Messages, states and parameters, and a gradient; the states of rows have means that differ."""
    random = torch.Generator().manual_seed(0)
    shapes = [(rows, width), (rows, width), (width, width), (width,), *([(width, width)] if own else [])]
    tensors = [torch.randn(*shape, generator=random, dtype=torch.float64) for shape in shapes]
    for weight in tensors[2:]:
        weight /= width**0.5
    tensors[1] += torch.linspace(-2, 2, rows, dtype=torch.float64)[:, None]
    return tensors, torch.randn(rows, width, generator=random, dtype=torch.float64)


def compare(form: Convolution, own: bool, width: int, dtype: torch.dtype, tolerance: float, rows: int = 1100) -> None:
    from gpnn.kernels.gpu_convolution import ConvolutionRule

    tensors, grad = draw(own, width, rows)
    expected = results(lambda m, h, *rest: oracle(form, m, h, rest) + 0 * h, tensors, grad)
    wide = torch.float64 if dtype == torch.float64 else torch.float32  # of the parameters
    ours = [each.to(DEVICE, dtype) for each in tensors[:2]] + [each.to(DEVICE, wide) for each in tensors[2:]]
    update = lambda *leaves: RowUpdate.apply(ConvolutionRule(form), *leaves)  # noqa: E731
    for mine, theirs in zip(results(update, ours, grad.to(DEVICE, dtype)), expected, strict=True):
        if theirs.any():
            assert error(mine.cpu(), theirs) < tolerance
        else:
            assert not mine.any()


@of_forms
@pytest.mark.parametrize("width", [5, 32])
def test_exact_products(form: Convolution, own: bool, width: int) -> None:
    compare(form, own, width, torch.float64, 1e-11)  # five columns that hardly differ are divided by little
    compare(form, own, width, torch.float32, 1e-5)


@of_forms
@pytest.mark.usefixtures("_tf32")
def test_tf32(form: Convolution, own: bool) -> None:
    compare(form, own, 16, torch.float32, 2e-2)  # a sum near 0 may fall on the other side of it


@needs_bf16
@of_forms
@pytest.mark.parametrize("width", [16, 64, 100, 128, 256])
def test_bf16(form: Convolution, own: bool, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpnn.kernels import gpu_convolution

    compare(form, own, width, torch.bfloat16, 8e-2)
    monkeypatch.setattr(gpu_convolution, "CHUNK_BYTES", 1 << 30)
    compare(form, own, width, torch.bfloat16, 8e-2, rows=20_037)


@of_forms
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("repeat", [None, 1, 3], ids=["a step", "one step", "steps"])
def test_whole_steps(form: Convolution, own: bool, diagonal: bool, repeat: int | None) -> None:
    """Held senders, `[20]`, send what they sent before the first step."""
    from gpnn.kernels.gpu_adjacency import Adjacency
    from gpnn.kernels.gpu_convolution import ConvolutionRule
    from gpnn.kernels.gpu_steps import WholeSteps
    from gpnn.kernels.whole_step import WholeStep

    random = torch.Generator().manual_seed(1)
    operator, dense = scaled_operator(random)
    operator, weight = split_on_device(operator), torch.rand(40, generator=random) if diagonal else None
    if weight is not None:
        dense[torch.arange(40), torch.arange(40)] += weight
    shapes = [(60, 16), (16, 16), (16,), *([(16, 16)] if own else [])]
    tensors = [torch.randn(*shape, generator=random) / len(shape) for shape in shapes]
    grad = torch.randn(40, 16, generator=random)

    def by_parts(h: Tensor, *rest: Tensor) -> Tensor:
        for _ in range(repeat or 1):
            new = oracle(form, dense.to(h) @ visible(form, h), h[:40], rest)
            h = torch.cat([new, h[40:]])
        return h[:40]

    expected = results(by_parts, [each.double() for each in tensors], grad.double())
    here, use = None if weight is None else weight.to(DEVICE), StepUse(values=True, gradients=True, kept=False)
    rule, leaves = ConvolutionRule(form), [each.to(DEVICE) for each in tensors]
    if repeat is None:
        step = lambda *each: WholeStep.apply(rule, Adjacency(operator, here), use, *each)  # noqa: E731
    else:
        step = lambda *each: WholeSteps.apply(rule, operator, here, use, repeat, *each)  # noqa: E731
    ours = results(step, leaves, grad.to(DEVICE))
    for mine, theirs in zip(ours, expected, strict=True):
        assert error(mine.cpu(), theirs) < 1e-4


@of_forms
@pytest.mark.parametrize("width", [5, 16])
def test_not_a_number_stays_one(form: Convolution, own: bool, width: int) -> None:
    from gpnn.kernels.gpu_convolution import ConvolutionRule

    (messages, state, *parameters), _ = draw(own, width, 40)
    messages[7, 2] = torch.nan
    given = [each.float().to(DEVICE) for each in (messages, state, *parameters)]
    assert RowUpdate.apply(ConvolutionRule(form), *given).isnan().any(1).nonzero().flatten().tolist() == [7]
