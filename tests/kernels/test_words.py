"""Words inside kernels: bfloat16 and tanh against PyTorch's."""

import numpy as np
import torch
from numba import njit

from gpnn.kernels.gates_kernel import _tanh
from gpnn.kernels.words import narrow, widen


@njit
def there_and_back(wide, stored, back):
    for i in range(len(wide)):
        stored[i] = narrow(wide[i], stored[i])
        back[i] = widen(stored[i])


@njit
def fill_tanh(x, out):
    for i in range(len(x)):
        out[i] = _tanh(x[i])


def test_bfloat16_rounds_as_torch_does():
    random = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31 - 1, (100_000,), generator=random, dtype=torch.int64).to(torch.int32)
    special = torch.tensor([0.0, -0.0, 1.0, torch.inf, -torch.inf, torch.nan, 3.4e38, 1e-45])
    wide = torch.cat([bits.view(torch.float32), special])
    stored, back = np.empty(len(wide), np.int16), np.empty(len(wide), np.float32)
    there_and_back(wide.numpy(), stored, back)
    expected = wide.bfloat16()
    torch.testing.assert_close(torch.from_numpy(back), expected.float(), rtol=0, atol=0, equal_nan=True)


def test_tanh_in_single_precision():
    x = np.concatenate([np.linspace(-12, 12, 100_001), [np.inf, -np.inf, np.nan, 1e-30]]).astype(np.float32)
    out = np.empty_like(x)
    fill_tanh(x, out)
    np.testing.assert_allclose(out, np.tanh(x.astype(np.float64)), atol=3e-7)
    assert abs(out[-1]) > 0.99e-30


def test_tanh_in_double_precision():
    x = np.linspace(-12, 12, 1001)
    out = np.empty_like(x)
    fill_tanh(x, out)
    np.testing.assert_allclose(out, np.tanh(x), atol=1e-15)
