"""The Triton kernels over rows give what dense products give: on a GPU, or by Triton's interpreter on a CPU."""

import pytest
import torch

from gpnn.kernels import Operator, aggregate
from tests.kernels.triton_device import DEVICE, needs_triton

pytestmark = needs_triton


@pytest.fixture(autouse=True)
def _short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than twenty entries are long: cut into pieces of seven."""
    import gpnn.kernels.gpu

    monkeypatch.setattr(gpnn.kernels.gpu, "LIMIT", 20)
    monkeypatch.setattr(gpnn.kernels.gpu, "SEGMENT", 7)


def hubs(generator: torch.Generator, *, weighted: bool) -> tuple[Operator, torch.Tensor]:
    """An operator `[25, 30]` with a long row, a long column and empty rows, and the same as a dense matrix."""
    rows = torch.cat([torch.randint(0, 20, (150,), generator=generator), torch.full((50,), 3)])
    cols = torch.randint(0, 30, (200,), generator=generator)
    cols[:60] = 5
    weight = torch.randn(200, generator=generator) if weighted else None
    values = torch.ones(200) if weight is None else weight
    dense = torch.zeros(25, 30).index_put_((rows, cols), values, accumulate=True)
    return Operator.from_edges(rows, cols, weight, (25, 30)).to(DEVICE), dense.to(DEVICE)


@pytest.mark.parametrize("width", [3, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_with_long_rows(width: int, weighted: bool) -> None:
    from gpnn.kernels.gpu import weighted_sum

    random = torch.Generator().manual_seed(width)
    operator, dense = hubs(random, weighted=weighted)
    x, grad = torch.randn(30, width, generator=random), torch.randn(25, width, generator=random)
    x, grad = x.to(DEVICE), grad.to(DEVICE)
    forward = weighted_sum(operator.ptr, operator.col, None, operator.weight, x)
    torch.testing.assert_close(forward, dense @ x, atol=1e-4, rtol=1e-4)
    backward = weighted_sum(operator.t_ptr, operator.t_row, operator.t_entry, operator.weight, grad)
    torch.testing.assert_close(backward, dense.T @ grad, atol=1e-4, rtol=1e-4)


def test_factors_of_rows_and_what_is_added() -> None:
    from gpnn.kernels.gpu import weighted_sum

    random = torch.Generator().manual_seed(0)
    operator, dense = hubs(random, weighted=False)
    x, row_scale, source_scale = torch.randn(30, 5), torch.rand(25), torch.rand(30)
    x, row_scale, source_scale = x.to(DEVICE), row_scale.to(DEVICE), source_scale.to(DEVICE)
    out = torch.randn(25, 5).to(DEVICE)
    expected = row_scale[:, None] * (dense @ (x * source_scale[:, None]))
    expected[:10] += out[:10]
    diagonal = torch.rand(12).to(DEVICE)
    expected[:12] += diagonal[:, None] * x[:12]
    factors = {"row_scale": row_scale, "source_scale": source_scale, "diagonal": diagonal}
    ours = weighted_sum(operator.ptr, operator.col, None, None, x, **factors, add=out[:10], out=out)
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("how", "sign"), [("max", 1), ("min", -1)])
def test_extremes_with_long_rows(how: str, sign: int) -> None:
    from gpnn.kernels.gpu import weighted_max, weighted_max_backward

    random = torch.Generator().manual_seed(1)
    operator, _ = hubs(random, weighted=True)
    x, grad = torch.randn(30, 4, generator=random), torch.randn(25, 4, generator=random)
    x[:6] = x[6:12]  # ties
    leaf = x.clone().requires_grad_()
    expected = aggregate(operator.to("cpu"), leaf, how, fill=-2.0)
    expected.backward(grad)
    ours, winner = weighted_max(operator.ptr, operator.col, operator.weight, sign, x.to(DEVICE), -2.0)
    torch.testing.assert_close(ours.cpu(), expected.detach())
    parts = (operator.t_ptr, operator.t_row, operator.t_entry, operator.weight)
    assert leaf.grad is not None
    torch.testing.assert_close(weighted_max_backward(*parts, winner, grad.to(DEVICE)).cpu(), leaf.grad)


def test_moved_rows() -> None:
    from gpnn.kernels.gpu_rows import add_rows, gather_rows, put_rows, take_rows

    x, rows, values = torch.randn(40, 6), torch.randperm(40)[:13], torch.randn(13, 6)
    ours, at, new = x.clone().to(DEVICE), rows.to(DEVICE), values.to(DEVICE)
    assert torch.equal(gather_rows(ours, at).cpu(), x[rows])
    add_rows(ours, at, new)
    torch.testing.assert_close(ours.cpu(), x.clone().index_add_(0, rows, values))
    put_rows(ours, at, new)
    x[rows] = values
    assert torch.equal(ours.cpu(), x)
    assert torch.equal(take_rows(ours, at).cpu(), values)
    x[rows] = 0
    assert torch.equal(ours.cpu(), x)
