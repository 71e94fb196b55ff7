"""The Triton kernels give what the CPU kernels give, gradients included."""

import pytest
import torch

from gpnn.kernels import AGGREGATORS, Operator, aggregate, dropout_mask, hash_key

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def random_operator(generator: torch.Generator, *, weighted: bool) -> Operator:
    rows = torch.randint(0, 300, (4000,), generator=generator)  # rows 300 to 399 receive nothing
    cols = torch.randint(0, 500, (4000,), generator=generator)
    weight = torch.randn(4000, generator=generator, dtype=torch.float64) if weighted else None
    return Operator.from_edges(rows, cols, weight, (400, 500))


@pytest.mark.parametrize("how", AGGREGATORS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("width", [1, 7, 64, 300])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gpu_equals_cpu(how: str, weighted: bool, width: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(width)
    operator = random_operator(generator, weighted=weighted)
    x = torch.randn(500, width, generator=generator, dtype=dtype)
    received = torch.randn(400, width, generator=generator, dtype=dtype)
    results = []
    for device in ("cpu", "cuda"):
        leaf = x.to(device, copy=True).requires_grad_()
        out = aggregate(operator.to(device), leaf, how, fill=-2.0)
        out.backward(received.to(device))
        assert leaf.grad is not None
        results.append((out.detach().cpu(), leaf.grad.cpu()))
    tolerance = {"atol": 1e-10, "rtol": 1e-10} if dtype == torch.float64 else {"atol": 1e-4, "rtol": 1e-4}
    torch.testing.assert_close(results[0], results[1], **tolerance)


def test_masks_are_the_same_on_both_devices() -> None:
    rows = torch.arange(1000)
    masks = [dropout_mask(hash_key(3), rows.to(device), 33, 0.4).cpu() for device in ("cpu", "cuda")]
    assert torch.equal(*masks)
