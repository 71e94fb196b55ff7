"""LoweredRows: a phase over a graph in CSR form, lowered where its rows lie, without a list of edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from torch import Tensor

from gpnn.engine.block import Block
from gpnn.engine.lowered_phase import BuiltPhase, Halo, halo_of, join_rows, rows_read
from gpnn.engine.row_blocks import RowLayout
from gpnn.engine.row_messages import RowMessages
from gpnn.schedule.row_phase import SENDS_CUT, RowPhase

ROW_RULES = ("phase", "graph")  # of normalisation that need no weight per edge


@dataclass(frozen=True, eq=False)
class LoweredRows:
    """A phase in the forms that runners take it in; each is built on first use, and kept.

    Attributes:
        phase: what was lowered.
        layout: the graph's rows in plan order.
        normalization: a rule of :mod:`gpnn.engine.normalize`.
        messages: makes blocks where messages have weights, types or loops; None: `layout` does.
    """

    phase: RowPhase
    layout: RowLayout
    normalization: str
    messages: RowMessages | None = None

    @property
    def kind(self) -> str:
        return self.phase.kind

    @property
    def repeat(self) -> int:
        return self.phase.repeat

    @property
    def closing(self) -> bool:
        return self.phase.closing

    @property
    def independent(self) -> bool:
        """Whether no block reads what another writes (but a row as it was)."""
        return self.phase.has_blocks

    @property
    def sends_all(self) -> bool:
        """Whether the phase sends over all edges at once, without blocks."""
        return self.kind == "all"

    @property
    def weighted(self) -> bool:
        """Whether each message has a weight of its own."""
        return self.phase.graph.edge_weight is not None or self.normalization.startswith("symmetric")

    @property
    def num_held(self) -> int:
        return self.phase.num_held

    @property
    def num_rows(self) -> int:
        """How many rows the phase writes, n."""
        return self.phase.num_nodes

    @property
    def num_edges(self) -> int:
        return self.phase.num_edges

    @property
    def piece_rows(self) -> int:
        """Rows of the largest of `chunks`, at most."""
        ends = self.layout.ends
        return min(self.num_rows, max(last - first for first, last in pairwise(ends)))

    @property
    def lowering_edges(self) -> int:
        """Edges of the largest range, whose arrays are made at one time."""
        if self.phase.crossings is None:
            return -(-self.num_edges // max(1, len(self.layout.ends) - 1))
        return int((self.phase.crossings.inside + self.phase.crossings.cut).max())

    @cached_property
    def num_halo(self) -> int:
        """How many rows held edges send from, H."""
        return self.phase.crossings.nodes(SENDS_CUT) if self.num_held and self.phase.crossings is not None else 0

    @property
    def piece_halo(self) -> int:
        """At most so many of them are read by one of `chunks`."""
        return min(self.num_halo, int(self.phase.crossings.cut.max())) if self.phase.crossings is not None else 0

    @cached_property
    def halo(self) -> Halo | None:
        """The rows that blocks read as they were at the start of the phase; None where nothing is held."""
        return halo_of(self.chunks) if self.num_held else None

    @cached_property
    def whole(self) -> Block:
        """The phase as one block: the fused runner's form."""
        if self.messages is not None:
            return self.messages.whole(self.phase.spec)
        return self.layout.whole(self.phase.spec, self.normalization)

    @cached_property
    def chunks(self) -> tuple[Block, ...]:
        """A block for each range of rows: independent, or runs of receivers that read each other."""
        if self.messages is not None:
            return self.messages.blocks(self.phase.spec)
        return self.layout.blocks(self.phase.spec, self.normalization)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The phase's own blocks, none of which reads a row that another writes."""
        return self.chunks if self.independent else (self.whole,)

    @cached_property
    def row_index(self) -> Tensor:
        """Plan rows that the phase writes, `[n]`, in the order of `whole` and of the pieces one after the other."""
        found = [self.whole] if "whole" in vars(self) else self.chunks
        return join_rows([block.rows for block in found], found[0].operators[0].ptr.device)

    @cached_property
    def input_rows(self) -> Tensor:
        """Plan rows that the phase reads, distinct, `[m]`."""
        return rows_read(self.chunks)

    def build(self, runner: str) -> BuiltPhase:
        """The form that "fused" or "streamed" takes, alone, without what it was built from."""
        blocks = tuple(replace(block, edges=None) for block in ((self.whole,) if runner == "fused" else self.chunks))
        return BuiltPhase(self.kind, blocks, self.independent, self.repeat, self.closing, self.sends_all, self.num_held)
