"""tanh inside the gates' kernels against PyTorch's."""

import numpy as np
from numba import njit

from gpnn.kernels.cpu_gates import tanh


@njit
def fill_tanh(x, out):
    for i in range(len(x)):
        out[i] = tanh(x[i])


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
