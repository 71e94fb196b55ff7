"""The chunked GRU gives what PyTorch's gives, gradients included, whatever the chunks."""

import pytest
import torch
from torch import Tensor

from gpnn.kernels import cpu_gates, cpu_gru


def inputs(rows: int, width: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(rows)
    shapes = [(rows, width), (rows, width), (3 * width, width), (3 * width, width), (3 * width,), (3 * width,)]
    return tuple(torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_gates, "CHUNK_BYTES", 0)  # 64 rows, the least


@pytest.mark.usefixtures("small_chunks")
def test_gradients_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(cpu_gru.gru_update, inputs(70, 3, torch.float64))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("rows", [0, 1, 64, 65, 200])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_it_equals_torch(rows: int, dtype: torch.dtype, tolerance: float) -> None:
    results = []
    for update in (cpu_gru.gru_update, torch.gru_cell):
        leaves = inputs(rows, 8, dtype)
        out = update(*leaves)
        (out * torch.linspace(-1, 1, out.numel(), dtype=dtype).view_as(out)).sum().backward()
        results.append([out, *(leaf.grad for leaf in leaves)])
    torch.testing.assert_close(*results, atol=tolerance, rtol=tolerance)


def test_it_keeps_nothing_of_the_gates() -> None:
    leaves = inputs(100, 8, torch.float32)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        cpu_gru.gru_update(*leaves)
    assert max(t.numel() for t in saved) == 100 * 8
