"""Operator: a weighted sum over edges, stored with its transpose so that no backward pass sorts anything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import CSR, compress, pointers, transpose


@dataclass(frozen=True, eq=False)
class Operator:
    """The map y[r] = row_scale[r] · Σ over the entries e of row r of weight[e] · col_scale[col[e]] · x[col[e]].

    It is held with its transpose.

    Attributes:
        shape: number of rows R and of columns C.
        ptr: row r owns entries `ptr[r]:ptr[r + 1]`, integers, `[R + 1]`.
        col: column of each entry, int32 where it fits, `[E]`.
        weight: weight of each entry, `[E]`, or None: all one.
        t_ptr: column c owns transposed entries `t_ptr[c]:t_ptr[c + 1]`, integers, `[C + 1]`.
        t_row: row of each transposed entry, `[E]`. Where entries have no weights and the adjacency is
            symmetric, `ptr` and `col` themselves are the transpose.
        t_entry: which entry of the row order each transposed entry is, `[E]`; empty where entries have no weights, and
            :attr:`entry_of` then computes it on first use.
        row_scale: a factor of each row, `[R]`, or None: a mean by degrees then takes `[R]` numbers instead of `[E]`. In
            float64 it serves rows `x` of every type: sums over them take it, and the weights, in their own type.
        col_scale: a factor of each column, `[C]`, or None: with `row_scale` the weights 1 / √(d(u) d(v)) of a symmetric
            rule then take `[R] + [C]` numbers instead of `[E]`. Sums take it; maxima and minima do not.
        split: what :attr:`by_column` gives, where it was made with the operator; None: it is made on first use.
    """

    shape: tuple[int, int]
    ptr: Tensor
    col: Tensor
    weight: Tensor | None
    t_ptr: Tensor
    t_row: Tensor
    t_entry: Tensor
    row_scale: Tensor | None = None
    col_scale: Tensor | None = None
    split: tuple[Operator, Operator] | None = None

    @classmethod
    def from_edges(cls, rows: Tensor, cols: Tensor, weight: Tensor | None, shape: tuple[int, int]) -> Operator:
        """The operator with an entry for each edge `(rows[e], cols[e])`; equal entries add up.

        >>> op = Operator.from_edges(torch.tensor([1, 0, 1]), torch.tensor([0, 1, 1]), None, (2, 2))
        >>> op.ptr.tolist(), op.col.tolist()
        ([0, 1, 3], [1, 0, 1])
        """
        forward = compress(rows.numpy(), cols.numpy(), shape[0])
        assert forward.edge is not None
        ordered = None if weight is None else weight[torch.from_numpy(forward.edge).long()]
        return cls.from_csr(torch.from_numpy(forward.ptr), torch.from_numpy(forward.index), ordered, shape)

    @classmethod
    def from_csr(cls, ptr: Tensor, col: Tensor, weight: Tensor | None, shape: tuple[int, int]) -> Operator:
        """The operator whose entries are already in row order; only the transpose is computed."""
        ptr, col = ptr.long(), col.to(torch.int32 if max(shape) < 2**31 else torch.int64)
        back = transpose(ptr.numpy(), col.numpy(), shape[1], with_edge=weight is not None)
        if back.edge is not None:
            t_entry = torch.from_numpy(back.edge)
            return cls(shape, ptr, col, weight, torch.from_numpy(back.ptr), torch.from_numpy(back.index), t_entry)
        t_ptr, t_row = (ptr, col) if _mirrors(ptr.numpy(), col.numpy(), back) else map(torch.from_numpy, back[:2])
        none = torch.empty(0, dtype=torch.int32 if len(col) < 2**31 else torch.int64)
        return cls(shape, ptr, col, None, t_ptr, t_row, none)

    @property
    def num_entries(self) -> int:
        return self.col.numel()

    @cached_property
    def entry_of(self) -> Tensor:
        """Which entry of the row order each transposed entry is, `[E]`."""
        if self.t_entry.numel() == self.num_entries:
            return self.t_entry
        order = self.t_row.argsort(stable=True)
        columns = _owners(self.t_ptr)[order]
        order = order[columns.argsort(stable=True)]  # by column, then by row
        entry = torch.empty_like(order)
        entry[order] = self.col.argsort(stable=True)  # likewise: entries stand by row
        return entry.to(self.t_entry.dtype)

    @cached_property
    def by_column(self) -> tuple[Operator, Operator]:
        """The entries in the first R columns, `[R, R]`, and those in the others, `[R, C − R]`; no factors of rows."""
        if self.split is not None:
            return self.split
        if self.shape[0] == self.shape[1]:
            none = Operator.from_csr(torch.zeros_like(self.ptr), self.col[:0], None, (self.shape[0], 0))
            return replace(self, row_scale=None), none
        first = self.col < self.shape[0]
        return self._select(first, 0, self.shape[0]), self._select(~first, self.shape[0], self.shape[1])

    def _select(self, chosen: Tensor, start: int, stop: int) -> Operator:
        """The chosen entries, which are in the columns from `start` to `stop`."""
        ptr = pointers(chosen)[self.ptr.long()]
        weight = None if self.weight is None else self.weight[chosen]
        made = Operator.from_csr(ptr, self.col[chosen] - start, weight, (self.shape[0], stop - start))
        return made if self.col_scale is None else replace(made, col_scale=self.col_scale[start:stop])

    def rows(self) -> Tensor:
        """Row of each entry, `[E]`."""
        return _owners(self.ptr)

    def with_weight(self, weight: Tensor | None) -> Operator:
        """The same entries with other weights (in row order) and no factors of rows and columns."""
        t_entry = self.t_entry[:0] if weight is None else self.entry_of
        return Operator(self.shape, self.ptr, self.col, weight, self.t_ptr, self.t_row, t_entry)

    def narrowed(self) -> Operator:
        """The same operator, its factors of rows and columns in float32 at most."""
        if self.row_scale is None and self.col_scale is None:
            return self
        rows, columns = (None if each is None else each.float() for each in (self.row_scale, self.col_scale))
        split = None if self.split is None else (self.split[0].narrowed(), self.split[1].narrowed())
        return replace(self, row_scale=rows, col_scale=columns, split=split)

    def to(self, device: torch.device | str) -> Operator:
        """The same operator on another device; arrays that serve twice do so there too."""
        moved = {id(tensor): tensor.to(device) for tensor in self._tensors() if tensor is not None}
        return Operator(self.shape, *(moved.get(id(tensor)) for tensor in self._tensors()))  # type: ignore[arg-type]

    @property
    def num_bytes(self) -> int:
        """Bytes that the operator's arrays take."""
        held = {id(tensor): tensor.numel() * tensor.element_size() for tensor in self._tensors() if tensor is not None}
        return sum(held.values())

    def _tensors(self) -> tuple[Tensor | None, ...]:
        factors = (self.row_scale, self.col_scale)
        return self.ptr, self.col, self.weight, self.t_ptr, self.t_row, self.t_entry, *factors


def _owners(ptr: Tensor) -> Tensor:
    """The row that each entry belongs to, `[E]`."""
    return torch.repeat_interleave(torch.arange(ptr.numel() - 1, device=ptr.device), ptr.diff())


def _mirrors(ptr: np.ndarray, col: np.ndarray, back: CSR) -> bool:
    """Whether each row has the columns, however ordered, that its transpose `back` has."""
    if not np.array_equal(ptr, back.ptr):
        return False
    return np.array_equal(col, back.index) or np.array_equal(transpose(*back[:2], len(ptr) - 1).index, back.index)
