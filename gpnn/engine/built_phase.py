"""BuiltPhase: a phase whose blocks were built at once, and that holds nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gpnn.engine.block import Block


@dataclass(frozen=True, eq=False)
class BuiltPhase:
    """A phase in the one form that was built; runners take it like a :class:`~gpnn.engine.LoweredPhase`.

    Attributes:
        kind: what the phase is for: "all", "inside", "cut", ….
        chunks: its blocks.
        apart: whether no block reads a row that another writes.
        repeat: how often the step is done.
    """

    kind: str
    chunks: tuple[Block, ...]
    apart: bool
    repeat: int

    def build(self, runner: str) -> BuiltPhase:
        """Itself: what it was built from is gone."""
        return self

    @property
    def whole(self) -> Block:
        """The phase as one block."""
        if len(self.chunks) != 1:
            raise ValueError(f"The fused runner takes a phase whole. Got a plan built in {len(self.chunks)} blocks.")
        return self.chunks[0]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks none of which reads a row that another writes."""
        if not self.apart and len(self.chunks) != 1:
            raise ValueError("A cell that is not `local` takes a phase's own blocks. Got a plan built in chunks.")
        return self.chunks

    @property
    def num_rows(self) -> int:
        return sum(block.num_rows for block in self.chunks)

    @property
    def num_edges(self) -> int:
        return sum(operator.num_entries for block in self.chunks for operator in block.operators)

    @property
    def piece_rows(self) -> int:
        """Rows of the largest block."""
        return max((block.num_rows for block in self.chunks), default=0)

    @cached_property
    def row_index(self) -> Tensor:
        """Plan rows that the phase writes, `[n]`, in the order of the blocks."""
        return join_rows([block.rows for block in self.chunks], self.chunks[0].operators[0].ptr.device)


def join_rows(rows: Sequence[Tensor | slice], device: torch.device | str) -> Tensor:
    """The numbers of these rows one after the other, `[n]`."""
    numbers = [torch.arange(each.start, each.stop) if isinstance(each, slice) else each for each in rows]
    return torch.cat([each.to(device) for each in numbers])
