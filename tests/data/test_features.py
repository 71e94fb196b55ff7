"""Feature matrices and transforms: dense and sparse agree, and the given data stays as it is."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch_geometric.data import Data

import gpnn
from gpnn import Graph
from gpnn.data.features import (
    choose_scale,
    column_moments,
    csr_tensor,
    from_scipy,
    have_units,
    map_features,
    scale_rows,
    transform_data,
)


def example() -> Data:
    edge_index = torch.tensor([[0, 0, 1, 2], [1, 1, 0, 2]])
    x = torch.tensor([[1.0, -3.0], [0.0, 0.0], [2.0, 2.0]])
    return Data(x=x, edge_index=edge_index, edge_weight=torch.tensor([1.0, 5.0, 2.0, 3.0]))


def test_types_that_are_given_count_as_one_beside_reverses_of_another() -> None:
    data = Graph([0, 0], [1, 1], num_nodes=2, edge_type=[0, 3]).to_data()
    both = transform_data(data, undirected="directions")
    assert both.edge_index.tolist() == [[0, 0, 1, 1], [1, 1, 0, 0]]
    assert both.edge_type.tolist() == [0, 0, 1, 1]
    assert data.edge_type.tolist() == [0, 3]


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
def test_a_row_whose_sum_passes_the_largest_number(kind: torch.dtype, layout: torch.layout) -> None:
    """Divided by an infinite sum, the features would all be zero and nobody would know."""
    large = torch.finfo(kind).max * 0.75
    x = torch.tensor([[large, -large, large, large], [0.0, 1.0, 0.0, 3.0]]).to(kind)
    scaled = scale_rows(x if layout == torch.strided else x.to_sparse_csr()).to_dense()
    assert scaled.dtype == torch.float32
    assert torch.allclose(scaled, torch.tensor([[0.25, -0.25, 0.25, 0.25], [0.0, 0.25, 0.0, 0.75]]))


def test_measurements_keep_their_size_and_counts_are_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    data = example()
    assert torch.equal(transform_data(data, scale_features="auto").x, data.x)
    data.x = data.x.abs()
    assert transform_data(data, scale_features="auto").x.tolist() == [[0.25, 0.75], [0, 0], [0.5, 0.5]]
    assert choose_scale(csr_tensor(np.array([0, 1]), np.array([0]), np.array([-1.0], np.float32), (1, 2))) == "none"
    assert choose_scale(None) == "none"
    assert choose_scale(torch.tensor([[31.0], [45.0]])) == "none"  # else both would be 1
    monkeypatch.setattr("gpnn.data.features.MOST_SCALED", 3)
    assert choose_scale(torch.ones(1, 3)) == "rows"
    assert choose_scale(torch.ones(2, 2)) == "none"


def test_columns_of_different_units_are_measurements() -> None:
    random = torch.Generator().manual_seed(0)
    shares = torch.rand(50, 3, generator=random)
    assert not have_units(shares)
    assert choose_scale(shares) == "rows"
    for apart in ([1.0, 1.0, 1000.0], [1.0, 0.001, 1.0]):
        assert have_units(shares * torch.tensor(apart))
        assert choose_scale(shares * torch.tensor(apart)) == "none"
    years = torch.cat([shares, 1990 + 30 * shares[:, :1]], 1)
    assert have_units(years)
    assert have_units(torch.cat([shares, 1000 + shares[:, :1]], 1))
    words = (torch.rand(2000, 200, generator=random) < torch.linspace(0.001, 0.5, 200)).float()
    assert not have_units(words)  # of which some are rare
    assert not have_units(torch.cat([words, torch.full((2000, 1), 7.0)], 1))  # the same everywhere
    assert not have_units(years.to_sparse_csr())
    assert not have_units(None)
    assert not have_units(torch.zeros(4, 0))


def test_moments_of_columns() -> None:
    x = torch.tensor([[1.0, 3.0, 5.0], [3.0, 3.0, -5.0]])
    mean, deviation = column_moments(x)
    assert mean.tolist() == [2.0, 3.0, 0.0]
    assert deviation.tolist() == [1.0, 1.0, 5.0]


def test_few_rows_tell_the_units_of_a_larger_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.arange(10.0)[:, None] * torch.tensor([1.0, 1000.0])
    for name, rows in (("PIECE_ROWS", 5), ("FEW_ROWS", 2)):
        monkeypatch.setattr(f"gpnn.data.features.{name}", rows)
    assert column_moments(x).mean.tolist() == [4.0, 4000.0]  # 0, 2, … 8
    monkeypatch.setattr("gpnn.data.features.MOST_SCALED", 19)
    assert column_moments(x).mean.tolist() == [2.5, 2500.0]  # 0 and 5
    assert have_units(x)


MATRIX = csr_matrix(np.array([[1, 0, 3], [0, 0, 0], [0, 2, 0]], np.int64))


def test_dense_and_sparse_are_the_same() -> None:
    dense, sparse = from_scipy(MATRIX, sparse=False), from_scipy(MATRIX, sparse=True)
    assert dense.dtype == sparse.dtype == torch.float32
    assert sparse.layout == torch.sparse_csr
    assert torch.equal(sparse.to_dense(), dense)


def test_rows_are_divided_by_their_sums() -> None:
    for sparse in (False, True):
        x = from_scipy(MATRIX, sparse=sparse, normalize=True)
        assert x.to_dense().tolist() == [[0.25, 0, 0.75], [0, 0, 0], [0, 1, 0]]
    assert MATRIX.toarray()[0].tolist() == [1, 0, 3]


def test_repeated_and_unsorted_entries_are_put_in_order() -> None:
    messy = csr_matrix((np.ones(3), np.array([2, 0, 2]), np.array([0, 3])), (1, 3))
    x = from_scipy(messy, sparse=True)
    assert x.col_indices().tolist() == [0, 2]
    assert x.values().tolist() == [1, 2]


def test_indices_are_narrow_where_they_fit() -> None:
    ptr, columns = np.array([0, 1]), np.array([4])
    assert csr_tensor(ptr, columns, np.ones(1, np.float32), (1, 5)).col_indices().dtype == torch.int32
    assert csr_tensor(ptr, columns, np.ones(1, np.float32), (1, 2**31)).col_indices().dtype == torch.int64


def sparse_features(x: torch.Tensor) -> torch.Tensor:
    return from_scipy(csr_matrix(x.numpy()), sparse=True)


@pytest.mark.parametrize("make", [torch.Tensor.clone, sparse_features])
def test_features_in_files_equal_what_they_were(make, tmp_path):
    x = make(torch.tensor([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]]))
    mapped = map_features(x, tmp_path / "new")
    assert mapped.layout == x.layout
    assert torch.equal(mapped.to_dense(), x.to_dense())
    assert not list((tmp_path / "new").iterdir())


def test_other_layouts_in_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must be dense or sparse CSR"):
        map_features(torch.eye(2).to_sparse_coo(), tmp_path)


def test_sparse_tensors_are_made_in_one_place() -> None:
    """torch warns the user that they are in beta, unless it is told not to."""
    package = Path(gpnn.__file__).parent
    making = [path.name for path in package.rglob("*.py") if "torch.sparse_csr_tensor(" in path.read_text()]
    assert making == ["features.py"]
