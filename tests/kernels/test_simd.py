"""SIMD vectors: sums of any width against a dense product, no touch of what lies behind a row; bfloat16."""

import numpy as np
import pytest
import torch
from numba import njit
from numba.core.errors import TypingError

from gpnn.kernels import Operator
from gpnn.kernels.cpu import NARROW, ROWS, WIDE, add_weighted_sum, factors, launch, weighted_sum
from gpnn.kernels.simd import narrow, read_vector, widen, write_vector, zero_vector

TYPES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.05}  # and how far sums of them may be off
WIDTHS = (1, 7, NARROW, NARROW + 1, WIDE - 1, WIDE, WIDE + NARROW, 2 * WIDE + NARROW + 3)
GUARD = 7.0


@njit
def copy_rows(like, source, out):
    """Rows of fewer than `NARROW` columns, through vectors of the type of `like`."""
    for row in range(len(source)):
        write_vector(read_vector(zero_vector(like, NARROW, True), source, row, 0), out, row, 0)


@njit
def there_and_back(wide, stored, back):
    for i in range(len(wide)):
        stored[i] = narrow(wide[i], stored[i])
        back[i] = widen(stored[i])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_sums_agree_with_a_dense_product(dtype, width):
    random = torch.Generator().manual_seed(width)
    rows, columns = 2 * ROWS + 3, 40
    matrix = torch.rand(rows, columns, generator=random, dtype=torch.float64)
    matrix[torch.rand(rows, columns, generator=random) < 0.8] = 0
    x = torch.randn(columns, width, generator=random).to(dtype)
    row_scale = torch.rand(rows, generator=random, dtype=torch.float64)
    before = torch.randn(rows + 1, width, generator=random).to(dtype)
    before[rows] = GUARD
    operator = Operator.from_edges(*matrix.nonzero().T, matrix[matrix != 0], (rows, columns))
    parts = (operator.ptr, operator.col, operator.col[:0], factors(operator.weight, x), factors(None, x))

    out = before.clone()
    launch(weighted_sum, rows, 0, *parts, factors(row_scale, x), x, out[:rows])
    expected = row_scale[:, None] * (matrix @ x.double())
    torch.testing.assert_close(out[:rows].double(), expected, rtol=TYPES[dtype], atol=TYPES[dtype])

    added = before.clone()
    launch(add_weighted_sum, rows, 0, *parts, factors(None, x), x, added[:rows], added[:rows])
    expected = before[:rows].double() + matrix @ x.double()
    torch.testing.assert_close(added[:rows].double(), expected, rtol=TYPES[dtype], atol=TYPES[dtype])
    assert (out[rows] == GUARD).all()
    assert (added[rows] == GUARD).all()


def test_vectors_round_to_bfloat16_as_torch_does():
    random = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31 - 1, (10_000, 10), generator=random, dtype=torch.int64).to(torch.int32)
    wide = bits.view(torch.float32)
    wide[0, :8] = torch.tensor([0.0, -0.0, 1.0, torch.inf, -torch.inf, torch.nan, 3.4e38, 1e-45])
    like = np.empty(0, np.float32)
    stored, back = np.empty(wide.shape, np.int16), np.empty(wide.shape, np.float32)
    copy_rows(like, wide.numpy(), stored)
    copy_rows(like, stored, back)
    expected = wide.bfloat16().float()
    torch.testing.assert_close(torch.from_numpy(back), expected, rtol=0, atol=0, equal_nan=True)


def test_single_numbers_round_to_bfloat16_as_torch_does():
    random = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31 - 1, (100_000,), generator=random, dtype=torch.int64).to(torch.int32)
    special = torch.tensor([0.0, -0.0, 1.0, torch.inf, -torch.inf, torch.nan, 3.4e38, 1e-45])
    wide = torch.cat([bits.view(torch.float32), special])
    stored, back = np.empty(len(wide), np.int16), np.empty(len(wide), np.float32)
    there_and_back(wide.numpy(), stored, back)
    expected = wide.bfloat16()
    torch.testing.assert_close(torch.from_numpy(back), expected.float(), rtol=0, atol=0, equal_nan=True)


def test_refuses_columns_that_do_not_lie_side_by_side():
    x = np.ones((4, 6), np.float32)
    with pytest.raises(TypingError, match="rows are contiguous"):
        copy_rows(x, x[:, ::2], np.ones((4, 3), np.float32))
