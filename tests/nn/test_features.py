"""The sparse-aware linear map keeps one operator a tensor."""

import gc

import pytest
import torch

from gpnn.nn import features as module
from gpnn.nn.features import FeatureLinear, feature_operator, feature_rows


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


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
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


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_the_gradient_touches_only_columns_that_occur():
    linear = FeatureLinear(5, 2, torch.Generator().manual_seed(0))
    linear(sparse_features().to_sparse_csr()).sum().backward()
    assert linear.weight.grad.sum(1).tolist() == [0.0, 5.0, 0.0, -2.0, 0.0]
