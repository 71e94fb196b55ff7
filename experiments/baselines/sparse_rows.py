"""Rows of a sparse feature matrix as bags of columns, and the linear map that reads them a batch at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gpnn.nn.layers import glorot

if TYPE_CHECKING:
    import scipy.sparse


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Some rows of a sparse matrix.

    Attributes:
        start: where each row's entries begin, `[M]`.
        column: column of each entry, `[e]`.
        value: each entry, `[e]`.
    """

    start: Tensor
    column: Tensor
    value: Tensor

    @classmethod
    def of(cls, x: scipy.sparse.csr_matrix, nodes: Any = None) -> SparseRows:
        """The rows of `nodes`, in their order; all rows where None."""
        rows = x if nodes is None else x[np.asarray(nodes)]
        start, column = (torch.from_numpy(part.astype(np.int64)) for part in (rows.indptr[:-1], rows.indices))
        return cls(start, column, torch.from_numpy(rows.data.astype(np.float32, copy=False)))


class RowLinear(nn.Module):
    """x W + b for sparse rows; the gradient of W is sparse: only the columns of the batch cost anything.

    Args:
        in_channels: number of columns F.
        out_channels: width of the result, d.
        generator: where the weights come from.
    """

    def __init__(self, in_channels: int, out_channels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(glorot(in_channels, out_channels, generator))
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, rows: SparseRows) -> Tensor:
        """The product, `[M, d]`."""
        bags = functional.embedding_bag(
            rows.column, self.weight, rows.start, mode="sum", sparse=True, per_sample_weights=rows.value
        )
        return bags + self.bias


class DenseLinear(nn.Module):
    """h W + b, started by Glorot and Bengio's draw.

    Args:
        in_channels: width of h.
        out_channels: width of the result.
        generator: where the weights come from.
    """

    def __init__(self, in_channels: int, out_channels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(glorot(in_channels, out_channels, generator))
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, h: Tensor) -> Tensor:
        return torch.addmm(self.bias, h, self.weight)
