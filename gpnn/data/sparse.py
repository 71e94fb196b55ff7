"""Feature matrices as torch tensors: sparse CSR where most entries are zero, dense elsewhere."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    import scipy.sparse


def csr_tensor(ptr: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> Tensor:
    """A torch sparse CSR tensor over the given arrays, which it shares; indices are int32 where they fit.

    Args:
        ptr: where each row begins, `[N + 1]`.
        columns: column of each entry, rising within a row, `[nnz]`.
        values: each entry, `[nnz]`.
        shape: `(N, F)`.
    """
    narrow = max(len(columns), *shape) <= np.iinfo(np.int32).max
    index = np.int32 if narrow else np.int64
    with warnings.catch_warnings():
        # torch says once a process that CSR is in beta and that it does not check the indices
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(ptr.astype(index, copy=False)),
            torch.from_numpy(columns.astype(index, copy=False)),
            torch.from_numpy(values),
            shape,
        )


def features(matrix: scipy.sparse.csr_matrix, *, sparse: bool, normalize: bool = False) -> Tensor:
    """A scipy matrix as float32 features, sparse CSR or dense, rows divided by their sums if asked."""
    matrix = matrix.astype(np.float32)
    if normalize:
        matrix = _normalize_rows(matrix)
    if not sparse:
        return torch.from_numpy(matrix.toarray())
    matrix.sum_duplicates()
    matrix.sort_indices()
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape)


def _normalize_rows(matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Rows that sum to one; a row of zeros stays."""
    matrix = matrix.copy()
    sums = np.asarray(matrix.sum(axis=1), np.float32).ravel()
    scale = np.divide(1, sums, out=np.zeros_like(sums), where=sums != 0)
    matrix.data *= np.repeat(scale, np.diff(matrix.indptr))
    return matrix
