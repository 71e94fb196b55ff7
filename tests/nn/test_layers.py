"""Features stay sparse, gradients included; batch normalisation starts at the first pass."""

import gc

import pytest
import torch

from gpnn.kernels import Operator
from gpnn.nn import layers as module
from gpnn.nn.layers import (
    BatchNorm,
    FeatureLinear,
    MaskKey,
    drop_entries,
    drop_rows,
    drop_weights,
    feature_operator,
    feature_rows,
)


def sparse_features() -> torch.Tensor:
    x = torch.zeros(6, 5)
    x[[0, 2, 4], [1, 3, 1]] = torch.tensor([2.0, -1.0, 0.5])
    return x


def test_the_operator_is_made_once_and_goes_with_its_tensor():
    x = sparse_features()
    key = (id(x),)
    assert feature_operator(x) is feature_operator(x)
    assert key in module._known
    del x
    gc.collect()
    assert key not in module._known


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_taken_once_in_the_memory_of_all_and_go_with_them(sparse):
    x = sparse_features()
    x = x.to_sparse_csr() if sparse else x
    key, rows = (id(x), 2, 5), slice(2, 5)
    part = feature_rows(x, rows)
    assert part is feature_rows(x, rows)
    assert torch.equal(part.to_dense(), sparse_features()[2:5])
    ends = (x.values()[1:], part.values()) if sparse else (x[2:], part)
    assert ends[0].data_ptr() == ends[1].data_ptr()
    assert feature_operator(part) is feature_operator(feature_rows(x, rows))
    if not sparse:
        x[3, 3] = 7.0
        assert feature_rows(x, rows) is not part
    del x, part, ends
    gc.collect()
    assert key not in module._known


def test_dense_features_have_none():
    assert feature_operator(torch.ones(4, 4)) is None


def test_rows_without_features_get_the_bias():
    linear = FeatureLinear(5, 2, torch.Generator().manual_seed(0))
    linear.bias.data = torch.tensor([1.0, -1.0])
    out = linear(sparse_features())
    assert out[1].tolist() == [1.0, -1.0]
    torch.testing.assert_close(out, sparse_features() @ linear.weight + linear.bias)


def test_the_gradient_touches_only_columns_that_occur():
    linear = FeatureLinear(5, 2, torch.Generator().manual_seed(0))
    linear(sparse_features().to_sparse_csr()).sum().backward()
    assert linear.weight.grad.sum(1).tolist() == [0.0, 5.0, 0.0, -2.0, 0.0]


def test_a_pass_is_standardised_and_the_first_one_is_the_running_average():
    norm, x = BatchNorm(3), torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 1e-2 + 0.5
    seen = norm(x)
    torch.testing.assert_close(seen.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(norm.running_mean, x.mean(0))
    torch.testing.assert_close(norm.running_var, x.var(0))


def test_the_average_is_plain_over_ten_passes_and_then_forgets():
    norm = BatchNorm(1)
    for value in range(10):
        norm(torch.tensor([[value - 1.0], [value + 1.0]]))
    torch.testing.assert_close(norm.running_mean, torch.tensor([4.5]))
    norm(torch.tensor([[99.0], [101.0]]))
    torch.testing.assert_close(norm.running_mean, torch.tensor([0.9 * 4.5 + 0.1 * 100]))


def test_a_loaded_module_goes_on_where_the_saved_one_was():
    first, second, x = BatchNorm(1), BatchNorm(1), torch.tensor([[1.0], [2.0]])
    first(x)
    second.load_state_dict(first.state_dict())
    first(3 * x), second(3 * x)
    torch.testing.assert_close(second.state_dict(), first.state_dict(), rtol=0, atol=0)


def test_nothing_is_dropped_without_a_draw_or_a_probability():
    x = torch.ones(3, 2)
    operator = Operator.from_edges(torch.tensor([0]), torch.tensor([1]), None, (2, 2))
    for drop, value in ((drop_entries, x), (drop_rows, x), (drop_weights, operator)):
        assert drop(value, 0.5, None, 0) is value
        assert drop(value, 0.0, MaskKey(0), 0) is value


def test_whole_rows_go_together_and_the_rest_is_scaled():
    dropped = drop_rows(torch.ones(200, 5), 0.25, MaskKey(1), 0)
    assert (dropped == dropped[:, :1]).all()
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.15)


def test_stored_entries_meet_the_dense_mask():
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    rows, cols = x.nonzero(as_tuple=True)
    sparse = drop_weights(Operator.from_edges(rows, cols, x[rows, cols], (6, 5)), 0.4, MaskKey(2), 7)
    dense = drop_entries(x, 0.4, MaskKey(2), 7)
    assert sparse.weight.equal(dense[sparse.rows(), sparse.col.long()])


def test_a_random_draw_comes_from_the_global_generator():
    torch.manual_seed(0)
    first = [MaskKey.random(), MaskKey.random()]
    torch.manual_seed(0)
    assert [MaskKey.random(), MaskKey.random()] == first
    assert first[0] != first[1]


def test_gradients_pass_where_entries_are_kept():
    x = torch.ones(50, 4, requires_grad=True)
    out = drop_entries(x, 0.5, MaskKey(0), 0)
    out.sum().backward()
    assert x.grad.equal(out.detach())
