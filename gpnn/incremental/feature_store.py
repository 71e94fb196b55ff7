"""FeatureStore: the features of nodes that come and go, dense or sparse."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.data.features import csr_tensor
from gpnn.incremental.ragged import RaggedRows, enlarge


class FeatureStore:
    """A row of features for each slot.

    Args:
        x: features to begin with, dense or sparse CSR, `[N, F]`: row i is slot i.

    >>> store = FeatureStore(torch.eye(2))
    >>> store.set(np.array([2]), torch.ones(1, 2))
    >>> store.take(np.array([2, 0])).tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, x: Tensor) -> None:
        self.num_columns, self.dtype = x.shape[1], x.dtype
        self._dense: np.ndarray | None = None
        if x.layout == torch.strided:
            self._dense = x.detach().cpu().numpy()
        else:
            self._sparse = RaggedRows(*_csr(x))

    def take(self, slots: np.ndarray) -> Tensor:
        """The rows of these slots, `[n, F]`."""
        if self._dense is not None:
            return torch.from_numpy(self._dense[slots])
        counts, (columns, values) = self._sparse.gather(slots)
        return csr_tensor(pointers(counts), columns, values, (len(slots), self.num_columns))

    def set(self, slots: np.ndarray, x: Tensor) -> None:
        """Give these slots the rows of `x`, dense or sparse, `[n, F]`."""
        most = int(slots.max(initial=-1)) + 1
        if self._dense is not None:
            self._dense = enlarge(self._dense, most)
            if not self._dense.flags.writeable or self._dense.base is not None:
                self._dense = self._dense.copy()  # the user's own
            self._dense[slots] = (x if x.layout == torch.strided else x.to_dense()).to(self.dtype).numpy()
            return
        self._sparse.enlarge(most)
        ptr, columns, values = _csr(x)
        self._sparse.replace(slots, np.diff(ptr), columns, values)


def _csr(x: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each row begins, and column and value of the entries that are not zero."""
    if x.layout == torch.sparse_csr:
        parts = (x.crow_indices(), x.col_indices(), x.values())
        return tuple(each.detach().cpu().numpy() for each in parts)  # type: ignore[return-value]
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((x if x.layout == torch.strided else x.to_dense()).detach().cpu().numpy())
    return matrix.indptr, matrix.indices, matrix.data
