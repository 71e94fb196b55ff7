"""The Triton recurrent unit gives what `torch.gru_cell` gives, gradients included."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gpnn.kernels import Operator
from tests.kernels.triton_device import DEVICE, INTERPRETED, needs_triton

pytestmark = needs_triton


@pytest.fixture(autouse=True, params=[set(), {2, 4}], ids=["products", "one pass"])
def _small_tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks, with the gradients of weights by torch's products and by one kernel."""
    from gpnn.kernels import gpu_gru

    monkeypatch.setattr(gpu_gru, "CHUNK_BYTES", 1 << 19)
    monkeypatch.setattr(gpu_gru, "ONE_PASS", request.param)
    if INTERPRETED:
        monkeypatch.setattr(gpu_gru, "SHARES", 3)
        monkeypatch.setitem(gpu_gru.PRODUCTS, "STEP", 16)
        for name in ("FORWARD", "BACKWARD", "SINGLE"):
            monkeypatch.setitem(getattr(gpu_gru, name), "ROWS", 16)


def results(step: Callable[..., Tensor], tensors: list[Tensor], grad: Tensor) -> list[Tensor]:
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    out = step(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def error(ours: Tensor, theirs: Tensor) -> float:
    return float((ours.double() - theirs.double()).norm() / theirs.double().norm())


def before_oracle(m: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
    """The recurrent unit whose reset gate acts before the product, gate by gate."""
    (w_r, w_z, w_n), (u_r, u_z, u_n) = w_ih.chunk(3), w_hh.chunk(3)
    (b_r, b_z, b_n), (c_r, c_z, c_n) = b_ih.chunk(3), b_hh.chunk(3)
    reset = torch.sigmoid(m @ w_r.T + b_r + h @ u_r.T + c_r)
    keep = torch.sigmoid(m @ w_z.T + b_z + h @ u_z.T + c_z)
    candidate = torch.tanh(m @ w_n.T + b_n + (reset * h) @ u_n.T + c_n)
    return (1 - keep) * candidate + keep * h


def compare(width: int, dtype: torch.dtype, tolerance: float, reset: str = "after", rows: int = 1100) -> None:
    from gpnn.kernels.gpu_gru import gru_update
    from gpnn.kernels.gpu_gru_before import gru_update_before

    update, oracle = (gru_update, torch.gru_cell) if reset == "after" else (gru_update_before, before_oracle)
    random = torch.Generator().manual_seed(0)
    shapes = [(rows, width), (rows, width), (3 * width, width), (3 * width, width), (3 * width,), (3 * width,)]
    tensors = [torch.randn(*shape, generator=random, dtype=torch.float64) / len(shape) for shape in shapes]
    grad = torch.randn(rows, width, generator=random, dtype=torch.float64)
    expected = results(oracle, tensors, grad)
    wide = torch.float64 if dtype == torch.float64 else torch.float32  # of the parameters
    ours = [t.to(DEVICE, dtype) for t in tensors[:2]] + [t.to(DEVICE, wide) for t in tensors[2:]]
    for mine, theirs in zip(results(update, ours, grad.to(DEVICE, dtype)), expected, strict=True):
        assert error(mine.cpu(), theirs) < tolerance


@pytest.mark.parametrize("reset", ["after", "before"])
@pytest.mark.parametrize("width", [5, 32])
def test_exact_products(width: int, reset: str) -> None:
    compare(width, torch.float64, 1e-12, reset)
    compare(width, torch.float32, 1e-5, reset)


@pytest.mark.usefixtures("_tf32")
@pytest.mark.parametrize("width", [16, 32])
def test_tf32(width: int) -> None:
    compare(width, torch.float32, 2e-3)


@pytest.mark.skipif(INTERPRETED, reason="Triton's interpreter has no product of bf16")
@pytest.mark.parametrize("reset", ["after", "before"])
@pytest.mark.parametrize("width", [16, 64, 100, 128, 256])
def test_bf16(width: int, reset: str) -> None:
    compare(width, torch.bfloat16, 2e-2, reset)


@pytest.mark.skipif(INTERPRETED, reason="Triton's interpreter has no product of bf16")
def test_weights_that_stay_on_the_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpnn.kernels import gpu_gru

    monkeypatch.setattr(gpu_gru, "TILES", 0)
    compare(128, torch.bfloat16, 2e-2)  # programs without a tile
    monkeypatch.setattr(gpu_gru, "CHUNK_BYTES", 1 << 30)
    compare(128, torch.bfloat16, 2e-2, rows=20_037)  # and with several


def scaled_operator(random: torch.Generator) -> tuple[Operator, Tensor]:
    """An operator `[40, 60]` with factors of rows and columns, and the same as a dense matrix."""
    rows, cols = torch.randint(0, 40, (300,), generator=random), torch.randint(0, 60, (300,), generator=random)
    scales = torch.rand(40, generator=random), torch.rand(60, generator=random)
    operator = replace(Operator.from_edges(rows, cols, None, (40, 60)), row_scale=scales[0], col_scale=scales[1])
    dense = torch.zeros(40, 60).index_put_((rows, cols), torch.ones(300), accumulate=True)
    return operator, scales[0][:, None] * dense * scales[1]


def split_on_device(operator: Operator) -> Operator:
    """The same on the device, its columns split in those of its rows and the others."""
    inside, cut = operator.by_column
    return replace(operator.to(DEVICE), split=(inside.to(DEVICE), cut.to(DEVICE)))


@pytest.mark.usefixtures("_tf32")
@pytest.mark.parametrize("diagonal", [False, True])
def test_a_whole_step(diagonal: bool) -> None:
    from gpnn.kernels.gated import StepUse
    from gpnn.kernels.gpu_adjacency import Adjacency
    from gpnn.kernels.gpu_gru import GRURule
    from gpnn.kernels.whole_step import WholeStep

    random = torch.Generator().manual_seed(1)
    operator, dense = scaled_operator(random)
    operator, own = operator.to(DEVICE), torch.rand(40, generator=random) if diagonal else None
    if own is not None:
        dense[torch.arange(40), torch.arange(40)] += own
    shapes = [(60, 16), (48, 16), (48, 16), (48,), (48,)]
    tensors = [torch.randn(*shape, generator=random) / len(shape) for shape in shapes]
    grad = torch.randn(40, 16, generator=random)
    expected = results(lambda h, *rest: torch.gru_cell(dense @ h, h[:40], *rest), tensors, grad)
    here = None if own is None else own.to(DEVICE)
    use = StepUse(values=True, gradients=True, kept=False)
    step = lambda h, *rest: WholeStep.apply(GRURule(), Adjacency(operator, here), use, h, *rest)  # noqa: E731
    ours = results(step, [tensor.to(DEVICE) for tensor in tensors], grad.to(DEVICE))
    for mine, theirs in zip(ours, expected, strict=True):
        assert error(mine.cpu(), theirs) < 2e-3


@pytest.mark.skipif(INTERPRETED, reason="Triton's interpreter has no product of bf16")
@pytest.mark.parametrize("chunk", [1 << 19, 1 << 30], ids=["chunks", "one chunk"])
@pytest.mark.parametrize("tiles", [0, 1 << 40], ids=["on the chip", "tile by tile"])
def test_steps_of_many_rows(tiles: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of messages takes their place, or has a place of its own until they are read for the last time."""
    from gpnn.kernels import gpu_gru
    from gpnn.kernels.gated import StepUse
    from gpnn.kernels.gpu_adjacency import Adjacency
    from gpnn.kernels.gpu_gru import GRURule
    from gpnn.kernels.gpu_steps import WholeSteps
    from gpnn.kernels.whole_step import WholeStep

    monkeypatch.setattr(gpu_gru, "TILES", tiles)
    monkeypatch.setattr(gpu_gru, "CHUNK_BYTES", chunk)
    random, (n, d) = torch.Generator().manual_seed(3), (3000, 128)
    rows, cols = torch.randint(0, n, (2, 4 * n), generator=random)
    scale = torch.rand(n, generator=random, dtype=torch.float64) / 2
    ones = torch.ones(4 * n, dtype=torch.float64)
    dense = scale[:, None] * torch.zeros(n, n, dtype=torch.float64).index_put_((rows, cols), ones, accumulate=True)
    whole = replace(Operator.from_edges(rows, cols, None, (n, n)), row_scale=scale)
    operator = split_on_device(whole)
    shapes = [(n, d), (3 * d, d), (3 * d, d), (3 * d,), (3 * d,)]
    tensors = [torch.randn(*shape, generator=random, dtype=torch.float64) / len(shape) ** 2 for shape in shapes]
    grad = torch.randn(n, d, generator=random, dtype=torch.float64)
    use = StepUse(values=True, gradients=True, kept=False)
    ours = [tensors[0].to(DEVICE, torch.bfloat16), *(tensor.to(DEVICE, torch.float32) for tensor in tensors[1:])]
    one = lambda h, *rest: torch.gru_cell(dense @ h, h, *rest)  # noqa: E731
    for step, oracle in (
        (lambda h, *rest: WholeStep.apply(GRURule(), Adjacency(operator, None), use, h, *rest), one),
        (
            lambda h, *rest: WholeSteps.apply(GRURule(), operator, None, use, 2, h, *rest),
            lambda h, *rest: one(one(h, *rest), *rest),
        ),
    ):
        expected = results(oracle, tensors, grad)
        for mine, theirs in zip(results(step, ours, grad.to(DEVICE, torch.bfloat16)), expected, strict=True):
            assert error(mine.cpu(), theirs) < 2e-2


@pytest.mark.usefixtures("_tf32")
def test_a_step_for_its_gradients_alone() -> None:
    from gpnn.kernels.gated import for_gradients, gated_step

    random = torch.Generator().manual_seed(2)
    rows, cols = torch.randint(0, 20, (90,), generator=random), torch.randint(0, 30, (90,), generator=random)
    operator = Operator.from_edges(rows, cols, None, (20, 30)).to(DEVICE)
    shapes = [(30, 16), (48, 16), (48, 16), (48,), (48,)]
    tensors = [(torch.randn(*shape, generator=random) / len(shape)).to(DEVICE) for shape in shapes]
    grad = torch.randn(20, 16, generator=random).to(DEVICE)
    step = lambda h, *rest: gated_step(operator, None, h, rest)  # noqa: E731
    expected = results(step, tensors, grad)
    with for_gradients():
        ours = results(step, tensors, grad)
    assert ours[0].shape == expected[0].shape
    for mine, theirs in zip(ours[1:], expected[1:], strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.usefixtures("_tf32")
@pytest.mark.parametrize(("diagonal", "repeat"), [(False, 3), (True, 2)])
def test_several_steps_beside_held_senders(diagonal: bool, repeat: int) -> None:
    from gpnn.kernels.gated import StepUse
    from gpnn.kernels.gpu_gru import GRURule
    from gpnn.kernels.gpu_steps import WholeSteps

    random = torch.Generator().manual_seed(1)
    whole, dense = scaled_operator(random)
    operator = split_on_device(whole)
    own = torch.rand(40, generator=random) if diagonal else None
    if own is not None:
        dense[torch.arange(40), torch.arange(40)] += own
    shapes = [(60, 16), (48, 16), (48, 16), (48,), (48,)]
    tensors = [torch.randn(*shape, generator=random) / len(shape) for shape in shapes]
    grad = torch.randn(40, 16, generator=random)

    def oracle(h: Tensor, *rest: Tensor) -> Tensor:
        for _ in range(repeat):
            h = torch.cat([torch.gru_cell(dense @ h, h[:40], *rest), h[40:]])
        return h[:40]

    expected = results(oracle, tensors, grad)
    here = None if own is None else own.to(DEVICE)
    for values in (True, False):
        use = StepUse(values=values, gradients=True, kept=False)
        step = lambda h, *rest: WholeSteps.apply(GRURule(), operator, here, use, repeat, h, *rest)  # noqa: E731, B023
        ours = results(step, [tensor.to(DEVICE) for tensor in tensors], grad.to(DEVICE))
        for mine, theirs in list(zip(ours, expected, strict=True))[not values :]:
            assert error(mine.cpu(), theirs) < 2e-3 * repeat  # what one step is allowed, once per step
