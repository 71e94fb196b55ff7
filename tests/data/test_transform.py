"""Transforms leave the given data alone and do to dense features what they do to sparse ones."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gpnn.data.sparse import csr_tensor
from gpnn.data.transform import choose_scale, scale_rows, transform_data


def example() -> Data:
    edge_index = torch.tensor([[0, 0, 1, 2], [1, 1, 0, 2]])
    x = torch.tensor([[1.0, -3.0], [0.0, 0.0], [2.0, 2.0]])
    return Data(x=x, edge_index=edge_index, edge_weight=torch.tensor([1.0, 5.0, 2.0, 3.0]))


def test_undirected_joins_reverses_and_drops_repeats() -> None:
    data = example()
    made = transform_data(data, undirected=True)
    assert made.edge_index.tolist() == [[0, 1, 2], [1, 0, 2]]
    assert made.edge_weight.tolist() == [1.0, 2.0, 3.0]  # an edge that was there keeps its own weight
    assert data.edge_index.shape == (2, 4)


def test_rows_sum_to_one_in_absolute_value() -> None:
    data = example()
    assert transform_data(data, scale_features="rows").x.tolist() == [[0.25, -0.75], [0, 0], [0.5, 0.5]]
    assert data.x[0].tolist() == [1.0, -3.0]


def test_sparse_rows_are_scaled_like_dense_ones() -> None:
    x = example().x
    ptr, columns, values = np.array([0, 2, 2, 4]), np.array([0, 1, 0, 1]), np.array([1, -3, 2, 2], np.float32)
    sparse = scale_rows(csr_tensor(ptr, columns, values, (3, 2)))
    assert sparse.layout == torch.sparse_csr
    assert torch.equal(sparse.to_dense(), scale_rows(x))


def test_nothing_asked_nothing_done() -> None:
    data = example()
    assert transform_data(data) is data


def test_data_without_features_is_fine() -> None:
    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    assert transform_data(data, scale_features="rows").get("x") is None


def test_unknown_scale_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`scale_features` must be one of auto, none, rows\. Got 'columns'"):
        transform_data(example(), scale_features="columns")


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
def test_a_row_whose_sum_passes_the_largest_number(kind: torch.dtype, layout: torch.layout) -> None:
    """Divided by an infinite sum, the features would all be zero and nobody would know."""
    large = torch.finfo(kind).max * 0.75
    x = torch.tensor([[large, -large, large, large], [0.0, 1.0, 0.0, 3.0]]).to(kind)
    scaled = scale_rows(x if layout == torch.strided else x.to_sparse_csr()).to_dense()
    assert scaled.dtype == torch.float32
    assert torch.allclose(scaled, torch.tensor([[0.25, -0.25, 0.25, 0.25], [0.0, 0.25, 0.0, 0.75]]))


def test_measurements_keep_their_size_and_counts_are_scaled() -> None:
    data = example()
    assert torch.equal(transform_data(data, scale_features="auto").x, data.x)
    data.x = data.x.abs()
    assert transform_data(data, scale_features="auto").x.tolist() == [[0.25, 0.75], [0, 0], [0.5, 0.5]]
    assert choose_scale(csr_tensor(np.array([0, 1]), np.array([0]), np.array([-1.0], np.float32), (1, 2))) == "none"
    assert choose_scale(None) == "none"
