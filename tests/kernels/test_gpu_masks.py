"""The GPU's masks are those of torch's own operations, bit for bit."""

import pytest
import torch

from gpnn.kernels import hash_key
from gpnn.kernels.masks import _threshold, hash_mask
from tests.kernels.triton_device import DEVICE, needs_triton

pytestmark = needs_triton
ROWS = torch.tensor([3, 0, 70_000, 2**31 - 1, 2**31, 2**33 + 5, 1, 2, 9])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("width", [1, 50, 300])
def test_rows(width: int, p: float, dtype: torch.dtype) -> None:
    from gpnn.kernels.gpu_masks import fill_mask

    for key in (hash_key(1, 2), hash_key(5), 1, 2**63 + 2**31):
        out = torch.full((len(ROWS), width), torch.nan, dtype=dtype, device=DEVICE)
        fill_mask(key, torch.stack([ROWS, -ROWS], 1).to(DEVICE)[:, 0], _threshold(p), 1 / (1 - p), out)
        assert out.cpu().equal(hash_mask(key, ROWS[:, None], torch.arange(width), p, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("width", [1, 50, 300])
def test_masked_values(width: int, whole: bool, dtype: torch.dtype) -> None:
    """A value times its mask, also in another type."""
    from gpnn.kernels.gpu_masks import mask_rows

    x = torch.randn(len(ROWS), width, generator=torch.Generator().manual_seed(0)).to(dtype)
    mask = hash_mask(hash_key(4), ROWS[:, None], torch.zeros(1) if whole else torch.arange(width), 0.5, dtype=dtype)
    for kind in (dtype, dtype if dtype == torch.float64 else torch.bfloat16):
        out = torch.full(x.shape, torch.nan, dtype=kind, device=DEVICE)
        mask_rows(hash_key(4), ROWS.to(DEVICE), _threshold(0.5), 2.0, x.to(DEVICE), out, whole=whole)
        exact = kind == dtype  # the interpreter truncates to bfloat16
        torch.testing.assert_close(out.cpu().float(), (x * mask).float(), rtol=0 if exact else 1e-2, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entries(dtype: torch.dtype) -> None:
    from gpnn.kernels.gpu_masks import fill_entries

    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(2**34, (3000,), generator=generator)
    columns = torch.randint(2**20, (3000,), generator=generator, dtype=torch.int32)
    out = torch.full((3000,), torch.nan, dtype=dtype, device=DEVICE)
    fill_entries(hash_key(3), rows.to(DEVICE), columns.to(DEVICE), _threshold(0.4), 1 / 0.6, out)
    assert out.cpu().equal(hash_mask(hash_key(3), rows, columns, 0.4, dtype=dtype))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (1, 1), (9, 300)])
def test_nothing_outside_the_mask_is_written(shape: tuple[int, int]) -> None:
    """Empty masks, and masks that fill no program's share."""
    from gpnn.kernels.gpu_masks import fill_entries, fill_mask

    size = shape[0] * shape[1]
    rows = torch.arange(max(size, shape[0]), device=DEVICE)
    for fill in (
        lambda out: fill_mask(1, rows[: shape[0]], _threshold(0.5), 2.0, out.view(shape)),
        lambda out: fill_entries(1, rows[:size], rows[:size], _threshold(0.5), 2.0, out),
    ):
        around = torch.full((size + 4096,), 7.0, device=DEVICE)
        fill(around[2048 : 2048 + size])
        assert around[2048 : 2048 + size].ne(7.0).all()
        assert around[:2048].eq(7.0).all()
        assert around[2048 + size :].eq(7.0).all()
