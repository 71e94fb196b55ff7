"""Sparse matrices in the form of `scipy.sparse.save_npz`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpnn.data.tables.limits import check_size

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MOST = 2**31 - 1  # rows, columns
INDICES = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}


def read_sparse(path: Path, arrays: dict[str, np.ndarray]) -> csr_matrix:
    """The matrix of an archive's arrays, float32; an index out of range would be read as memory, so all are checked.

    Args:
        path: the archive, for errors.
        arrays: its arrays by name.

    Raises:
        ValueError: when they make no matrix of numbers.
    """
    try:
        return _assemble(path, arrays)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, IndexError) as error:
        reason = str(error).rstrip(".")
        if reason.startswith(path.name):
            raise
        raise ValueError(f"{path.name} must hold one array of numbers or a scipy matrix. Got: {reason}.") from None


def _assemble(path: Path, arrays: dict[str, np.ndarray]) -> csr_matrix:
    from scipy import sparse

    kind = str(arrays["format"].astype(str))
    if kind not in INDICES:
        raise ValueError(f"the format {kind[:20]!r} (csr, csc and coo are read)")
    shape = tuple(int(length) for length in arrays["shape"])
    if len(shape) != 2 or min(shape) < 0 or max(shape) > MOST:
        raise ValueError(f"shape {list(shape)}")
    values, first, second = arrays["data"], *(arrays[name] for name in INDICES[kind])
    for part, kinds in ((values, "biuf"), (first, "iu"), (second, "iu")):
        if part.ndim != 1 or part.dtype.kind not in kinds:
            raise ValueError(f"an array of {part.ndim} dimensions and type {part.dtype}")
    check_size(path.name, 16 * len(values) + 8 * sum(shape))
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    first, second = first.astype(np.int64), second.astype(np.int64)
    if kind == "coo":
        return sparse.coo_matrix((values, (first, second)), shape=shape).tocsr()
    matrix = getattr(sparse, f"{kind}_matrix")((values, first, second), shape=shape)
    matrix.check_format(full_check=True)
    return matrix.tocsr()
