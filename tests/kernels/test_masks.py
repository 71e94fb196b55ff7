"""Masks are a pure function of key, row and column."""

import pytest
import torch

from gpnn.kernels import dropout_mask, hash_key, row_mask
from gpnn.kernels.masks import hash_mask

ROWS = torch.tensor([3, 0, 70_000, 2**33 + 5])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 0.9])
def test_compiled_and_torch_paths_give_the_same_bits(dtype, p):
    key = hash_key(1, 2)
    mask = dropout_mask(key, ROWS, 50, p, dtype=dtype)
    by_entry = hash_mask(key, ROWS.repeat_interleave(50), torch.arange(50).repeat(4), p, dtype=dtype)
    assert mask.equal(by_entry.view(4, 50))
    assert mask.equal(dropout_mask(key, ROWS, 50, p, dtype=dtype))
    assert set(mask.unique().tolist()) <= {0.0, torch.tensor(1 / (1 - p), dtype=dtype).item()}


def test_half_precision_takes_the_same_entries():
    key = hash_key(4)
    half = dropout_mask(key, ROWS, 20, 0.5, dtype=torch.bfloat16)
    assert half.dtype == torch.bfloat16
    assert half.float().equal(dropout_mask(key, ROWS, 20, 0.5))


def test_a_row_does_not_depend_on_the_others():
    key = hash_key(0)
    assert dropout_mask(key, ROWS[2:3], 9, 0.5).equal(dropout_mask(key, ROWS, 9, 0.5)[2:3])
    assert row_mask(key, ROWS, 0.5).equal(dropout_mask(key, ROWS, 1, 0.5))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_drops_at_the_rate_asked_for_in_rows_and_columns(p):
    kept = dropout_mask(hash_key(7), torch.arange(2000), 500, p) > 0
    assert abs(kept.float().mean() - (1 - p)) < 0.002  # five deviations of the mean of a million draws
    for dim, count in ((0, 2000), (1, 500)):
        spread = kept.float().mean(dim).std()
        assert spread == pytest.approx((p * (1 - p) / count) ** 0.5, rel=0.2)


def test_keys_and_neighbouring_columns_are_independent():
    rows = torch.arange(2000)
    masks = [(dropout_mask(hash_key(*key), rows, 500, 0.5) > 0).float() - 0.5 for key in ((0, 0), (0, 1), (1, 0))]
    pairs = [(masks[0], masks[1]), (masks[0], masks[2]), (masks[0][:, 1:], masks[0][:, :-1])]
    pairs += [(masks[0][1:], masks[0][:-1]), (masks[0][:, 2:], masks[0][:, :-2])]
    for a, b in pairs:
        assert abs((a * b).mean()) < 0.25 * 5 / 1000  # five deviations under independence


@pytest.mark.parametrize("p", [-0.1, 1.0, 2.0])
def test_refuses_probabilities_out_of_range(p):
    with pytest.raises(ValueError, match=r"at least 0 and below 1\. Got"):
        dropout_mask(0, ROWS, 1, p)
