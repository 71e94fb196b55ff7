"""CSRRows: the edges of a graph by receiver, as compressed sparse rows, in memory, mapped or on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gpnn.graph.edges import EdgeDigest, digest_rows

CHUNK = 1 << 24  # rows that are compared at a time


@dataclass(frozen=True, eq=False)
class CSRRows:
    """Edges by receiver: those into node v are entries `ptr[v]:ptr[v + 1]`. An edge's id is its entry.

    Attributes:
        ptr: where each node's edges begin, int64, `[N + 1]`.
        col: their senders, int32 or int64, `[E]`.
        symmetric: whether the reverse of every edge is there equally often, with the same type and weight.
        out: the same by sender, `ptr` `[N + 1]` and the receivers `[E]`; None where the graph is symmetric, or they
            were not given.
        known_digest: of the edges with their types and weights, where it is known, as that of a file is.

    Raises:
        ValueError: where the arrays are not rows of a graph.
    """

    ptr: Tensor
    col: Tensor
    symmetric: bool = False
    out: tuple[Tensor, Tensor] | None = None
    known_digest: EdgeDigest | None = None

    def __post_init__(self) -> None:
        _check("ptr", self.ptr, (torch.int64,), len(self.ptr))
        for ptr, col in ((self.ptr, self.col), *(() if self.out is None else (self.out,))):
            _check("ptr", ptr, (torch.int64,), len(self.ptr))
            _check("col", col, (torch.int32, torch.int64), self.num_edges)
            _check_rows(ptr, col)

    @property
    def num_nodes(self) -> int:
        return self.ptr.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.col.numel()

    @cached_property
    def by_sender(self) -> tuple[Tensor, Tensor] | None:
        """The rows of senders, `ptr` and receivers; None where they are not known."""
        return (self.ptr, self.col) if self.symmetric else self.out

    def edge_list(self) -> tuple[Tensor, Tensor]:
        """Sender and receiver of each edge, int64, on the CPU, `[E]` each."""
        ptr = self.ptr.cpu()
        return self.col.cpu().long(), torch.repeat_interleave(torch.arange(self.num_nodes), ptr.diff())

    def digest(self, edge_type: Tensor | None, edge_weight: Tensor | None) -> EdgeDigest:
        """The digest of the edges, as an edge list of them has it."""
        if self.known_digest is not None:
            return self.known_digest
        return digest_rows(self.ptr, self.col, edge_type, edge_weight)

    def to(self, device: torch.device | str) -> CSRRows:
        """The same rows on a device, without those of senders."""
        if self.ptr.device == torch.device(device):
            return self
        return CSRRows(self.ptr.to(device), self.col.to(device), self.symmetric, None, self.known_digest)


def _check(name: str, values: Any, dtypes: tuple[torch.dtype, ...], length: int) -> None:
    if not isinstance(values, Tensor) or values.dim() != 1 or values.dtype not in dtypes or len(values) != length:
        kinds = " or ".join(str(each).removeprefix("torch.") for each in dtypes)
        found = f"{values.dtype} {list(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise ValueError(f"`{name}` of rows must be a tensor of {kinds}, [{length}]. Got {found}.")


def _check_rows(ptr: Tensor, col: Tensor) -> None:
    if len(ptr) < 2 or int(ptr[0]) != 0 or int(ptr[-1]) != len(col):
        ends = f"{int(ptr[0])} and {int(ptr[-1])}" if len(ptr) else "none"
        raise ValueError(f"`ptr` of rows must begin at 0 and end at the {len(col)} edges. Got {ends}.")
    for first in range(0, len(ptr) - 1, CHUNK):
        if bool((ptr[first : first + CHUNK + 1].diff() < 0).any()):
            raise ValueError(f"`ptr` of rows must not fall. It does past row {first}.")
    if len(col):
        low, high = (int(bound) for bound in torch.aminmax(col))
        if low < 0 or high >= len(ptr) - 1:
            bad = low if low < 0 else high
            raise ValueError(f"`col` must hold node ids from 0 to {len(ptr) - 2}. Got {bad}.")
