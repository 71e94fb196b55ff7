"""Features in files are the same features."""

import pytest
import scipy.sparse
import torch

from gpnn.data.features import from_scipy
from gpnn.train.mapped import map_features


def sparse_features(x: torch.Tensor) -> torch.Tensor:
    return from_scipy(scipy.sparse.csr_matrix(x.numpy()), sparse=True)


@pytest.mark.parametrize("make", [torch.Tensor.clone, sparse_features])
def test_they_equal_what_they_were(make, tmp_path):
    x = make(torch.tensor([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]]))
    mapped = map_features(x, tmp_path / "new")
    assert mapped.layout == x.layout
    assert torch.equal(mapped.to_dense(), x.to_dense())
    assert not list((tmp_path / "new").iterdir())


def test_other_layouts_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must be dense or sparse CSR"):
        map_features(torch.eye(2).to_sparse_coo(), tmp_path)
