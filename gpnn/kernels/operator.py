"""Operator: a weighted sum over edges, stored with its transpose so that no backward pass sorts anything."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Operator:
    """The map y[r] = row_scale[r] · Σ over the entries e of row r of weight[e] · x[col[e]], and its transpose.

    Attributes:
        shape: number of rows R and of columns C.
        ptr: row r owns entries `ptr[r]:ptr[r + 1]`, integers, `[R + 1]`.
        col: column of each entry, int32 where it fits, `[E]`.
        weight: weight of each entry, `[E]`, or None: all one.
        t_ptr: column c owns transposed entries `t_ptr[c]:t_ptr[c + 1]`, integers, `[C + 1]`.
        t_row: row of each transposed entry, `[E]`.
        t_entry: which entry of the row order each transposed entry is, `[E]`; empty where entries have no weights, and
            :attr:`entry_of` then finds it for those that ask.
        row_scale: a factor of each row, `[R]`, or None: a mean by degrees then takes `[R]` numbers instead of `[E]`.
    """

    shape: tuple[int, int]
    ptr: Tensor
    col: Tensor
    weight: Tensor | None
    t_ptr: Tensor
    t_row: Tensor
    t_entry: Tensor
    row_scale: Tensor | None = None

    @classmethod
    def from_edges(cls, rows: Tensor, cols: Tensor, weight: Tensor | None, shape: tuple[int, int]) -> Operator:
        """The operator with an entry for each edge `(rows[e], cols[e])`; equal entries add up.

        >>> op = Operator.from_edges(torch.tensor([1, 0, 1]), torch.tensor([0, 1, 1]), None, (2, 2))
        >>> op.ptr.tolist(), op.col.tolist()
        ([0, 1, 3], [1, 0, 1])
        """
        from gpnn.csr import compress

        forward = compress(rows.numpy(), cols.numpy(), shape[0])
        assert forward.edge is not None
        ordered = None if weight is None else weight[torch.from_numpy(forward.edge).long()]
        return cls.from_csr(torch.from_numpy(forward.ptr), torch.from_numpy(forward.index), ordered, shape)

    @classmethod
    def from_csr(cls, ptr: Tensor, col: Tensor, weight: Tensor | None, shape: tuple[int, int]) -> Operator:
        """The operator whose entries are already in row order; only the transpose is computed."""
        from gpnn.csr import compress, index_type

        rows = np.repeat(np.arange(shape[0], dtype=index_type(shape[0])), np.diff(ptr.numpy()))
        back = compress(col.numpy(), rows, shape[1])
        assert back.edge is not None
        narrow = torch.int32 if max(shape) < 2**31 else torch.int64
        t_entry = torch.from_numpy(back.edge[:0] if weight is None else back.edge)
        transposed = (torch.from_numpy(back.ptr), torch.from_numpy(back.index), t_entry)
        return cls(shape, ptr.long(), col.to(narrow), weight, *transposed)

    @property
    def num_entries(self) -> int:
        return self.col.numel()

    @cached_property
    def entry_of(self) -> Tensor:
        """Which entry of the row order each transposed entry is, `[E]`."""
        if self.t_entry.numel() == self.num_entries:
            return self.t_entry
        return self.col.argsort(stable=True).to(self.t_entry.dtype)

    def rows(self) -> Tensor:
        """Row of each entry, `[E]`."""
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.ptr.device), self.ptr.diff())

    def with_weight(self, weight: Tensor | None) -> Operator:
        """The same entries with other weights (in row order) and no factors of rows."""
        t_entry = self.t_entry[:0] if weight is None else self.entry_of
        return Operator(self.shape, self.ptr, self.col, weight, self.t_ptr, self.t_row, t_entry)

    def to(self, device: torch.device | str) -> Operator:
        """The same operator on another device."""
        return Operator(self.shape, *(None if t is None else t.to(device) for t in self._tensors()))  # type: ignore[arg-type]

    @property
    def num_bytes(self) -> int:
        """Bytes that the operator's arrays take."""
        return sum(t.numel() * t.element_size() for t in self._tensors() if t is not None)

    def _tensors(self) -> tuple[Tensor | None, ...]:
        return self.ptr, self.col, self.weight, self.t_ptr, self.t_row, self.t_entry, self.row_scale
