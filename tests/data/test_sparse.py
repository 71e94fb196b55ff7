"""Features as tensors."""

import numpy as np
import torch
from scipy.sparse import csr_matrix

from gpnn.data.sparse import csr_tensor, features

MATRIX = csr_matrix(np.array([[1, 0, 3], [0, 0, 0], [0, 2, 0]], np.int64))


def test_dense_and_sparse_are_the_same() -> None:
    dense, sparse = features(MATRIX, sparse=False), features(MATRIX, sparse=True)
    assert dense.dtype == sparse.dtype == torch.float32
    assert sparse.layout == torch.sparse_csr
    assert torch.equal(sparse.to_dense(), dense)


def test_rows_are_divided_by_their_sums() -> None:
    for sparse in (False, True):
        x = features(MATRIX, sparse=sparse, normalize=True)
        assert x.to_dense().tolist() == [[0.25, 0, 0.75], [0, 0, 0], [0, 1, 0]]
    assert MATRIX.toarray()[0].tolist() == [1, 0, 3]


def test_repeated_and_unsorted_entries_are_put_in_order() -> None:
    messy = csr_matrix((np.ones(3), np.array([2, 0, 2]), np.array([0, 3])), (1, 3))
    x = features(messy, sparse=True)
    assert x.col_indices().tolist() == [0, 2]
    assert x.values().tolist() == [1, 2]


def test_indices_are_narrow_where_they_fit() -> None:
    ptr, columns = np.array([0, 1]), np.array([4])
    assert csr_tensor(ptr, columns, np.ones(1, np.float32), (1, 5)).col_indices().dtype == torch.int32
    assert csr_tensor(ptr, columns, np.ones(1, np.float32), (1, 2**31)).col_indices().dtype == torch.int64
