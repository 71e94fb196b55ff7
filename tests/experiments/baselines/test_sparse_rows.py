import numpy as np
import torch
from scipy.sparse import csr_matrix

from experiments.baselines.sparse_rows import RowLinear, SparseRows


def test_agrees_with_the_dense_product_and_touches_only_used_columns() -> None:
    dense = np.array([[0, 2, 0, 0], [0, 0, 0, 0], [1, 3, 0, 0]], np.float32)
    layer = RowLinear(4, 5, torch.Generator().manual_seed(0))
    out = layer(SparseRows.of(csr_matrix(dense), np.array([2, 1])))
    torch.testing.assert_close(out, torch.from_numpy(dense[[2, 1]]) @ layer.weight + layer.bias)
    out.sum().backward()
    gradient = layer.weight.grad
    assert gradient is not None
    assert gradient.is_sparse
    torch.testing.assert_close(gradient.to_dense()[:, 0], torch.tensor([1.0, 3, 0, 0]))


def test_no_rows() -> None:
    layer = RowLinear(4, 5, torch.Generator().manual_seed(0))
    assert layer(SparseRows.of(csr_matrix((3, 4)), np.empty(0, np.int64))).shape == (0, 5)
