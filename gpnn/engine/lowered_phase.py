"""LoweredPhase: a phase with its edges renumbered, weighted and compressed; LoweredRows: one over CSR rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.engine.block import Block, BlockBuilder, Messages
from gpnn.engine.normalize import Normalizer, is_symmetric
from gpnn.engine.row_blocks import RowLayout, weighs_entries
from gpnn.schedule import Phase
from gpnn.schedule.phase_spec import SENDS_CUT, RowPhase

COUNTED = 8  # ranges of rows whose senders are counted, to estimate those of all


class Lowered(ABC):
    """A phase in the forms that runners take it in; each is built on first use, and kept."""

    phase: Phase | RowPhase

    @property
    @abstractmethod
    def whole(self) -> Block:
        """The phase as one block: the fused runner's form."""

    @property
    @abstractmethod
    def chunks(self) -> tuple[Block, ...]:
        """The phase's own blocks or, where it has none, its receivers in runs that read each other."""

    @property
    @abstractmethod
    def sends_all(self) -> bool:
        """Whether the phase sends over all edges at once, without blocks."""

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
        """Whether the phase has blocks of its own, none of which reads what another writes (but a row as it was)."""
        return self.phase.has_blocks

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

    @cached_property
    def halo(self) -> Halo | None:
        """The rows that blocks read as they were at the start of the phase; None where nothing is held."""
        return halo_of(self.chunks) if self.num_held else None

    @cached_property
    def input_rows(self) -> Tensor:
        """Plan rows that the phase reads, distinct, `[m]`."""
        return rows_read(self.chunks)

    def build(self, runner: str) -> BuiltPhase:
        """The form that "fused" or "streamed" takes, alone: without edge ids, and without what it was built from."""
        blocks = (self.whole,) if runner == "fused" else self.chunks or (self.whole,)
        blocks = tuple(replace(block, edges=None) for block in blocks)
        return BuiltPhase(self.kind, blocks, self.independent, self.repeat, self.closing, self.sends_all, self.num_held)


@dataclass(frozen=True, eq=False)
class LoweredPhase(Lowered):
    """A phase over a list of edges.

    Attributes:
        phase: what was lowered.
        rule: weighs its messages.
        place: plan row of each node, `[N + V]`, or None where the two orders agree.
        builder: cuts blocks.
        chunk_rows: receivers per chunk, where a phase without blocks is cut into pieces.
        check: raises where the graph was changed since the schedule was made, so that no form of the phase is built
            from other edges than the rest of the plan.
    """

    phase: Phase
    rule: Normalizer
    place: Tensor | None
    builder: BlockBuilder
    chunk_rows: int
    check: Callable[[], None]

    @cached_property
    def num_halo(self) -> int:
        """How many rows held edges send from, H."""
        held = self.phase.held
        return 0 if held is None else self.rule.graph.src[held].unique().numel()

    @property
    def piece_halo(self) -> int:
        """At most so many of them are read by one of `chunks`."""
        held_ptr = self.phase.held_ptr
        return min(self.num_halo, self.num_held if held_ptr is None else int(held_ptr.diff().max()))

    @property
    def sends_all(self) -> bool:
        return not self.independent and self.num_edges == self.rule.graph.num_edges

    @property
    def weighted(self) -> bool:
        """Whether the graph's edges have weights."""
        return self.rule.graph.edge_weight is not None

    @property
    def lowering_edges(self) -> int:
        """Edges whose arrays are made at one time."""
        return self.num_edges + self.num_held

    @property
    def piece_rows(self) -> int:
        """Rows of the largest of `chunks`."""
        if self.phase.node_ptr is None:
            return self.num_rows if self.num_held else min(self.num_rows, self.chunk_rows)
        return int(self.phase.node_ptr.diff().max())

    @cached_property
    def row_index(self) -> Tensor:
        """Plan rows that the phase writes, `[n]`, in the order of `whole` and of the pieces one after the other."""
        return self._renumber(self.phase.nodes).to(self.builder.device)

    @cached_property
    def whole(self) -> Block:
        return self.builder.build(self.messages())

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The phase's own blocks, none of which reads a row that another writes."""
        if self.phase.edge_ptr is None or self.phase.node_ptr is None:
            return (self.whole,)
        return tuple(self.builder.build(piece) for piece in _blocks(self.messages(), self.phase))

    @cached_property
    def chunks(self) -> tuple[Block, ...]:
        if self.independent or self.num_held or self.num_rows <= self.chunk_rows:
            return self.blocks
        return tuple(self.builder.build(piece) for piece in _chunks(self.messages(), self.chunk_rows))

    def messages(self) -> Messages:
        """The phase's edges in plan numbering; not kept, since blocks hold all that running needs."""
        self.check()
        graph, phase, held = self.rule.graph, self.phase, None
        edges = phase.edges if phase.held is None else torch.cat([phase.edges, phase.held])
        if phase.held is not None and phase.repeat > 1:  # else senders are read before anything is written
            held = torch.arange(edges.numel()) >= phase.edges.numel()
        weights = self.rule.phase_weights(edges, phase.nodes)
        dtype = torch.float32 if graph.edge_weight is None else graph.edge_weight.dtype
        return Messages(
            self._renumber(phase.nodes),
            self._renumber(graph.src[edges]),
            self._renumber(graph.dst[edges]),
            edges,
            None if weights.edge is None else weights.edge.to(dtype),
            weights.row,
            None if graph.edge_weight is None else graph.edge_weight[edges],
            None if graph.num_edge_types == 1 or graph.edge_type is None else graph.edge_type[edges],
            weights.diagonal,
            weights.degrees,
            held,
        )

    def _renumber(self, nodes: Tensor) -> Tensor:
        return nodes if self.place is None else self.place[nodes]


def _blocks(messages: Messages, phase: Phase) -> Iterator[Messages]:
    assert phase.edge_ptr is not None
    assert phase.node_ptr is not None
    edges, nodes = phase.edge_ptr.tolist(), phase.node_ptr.tolist()
    held = None if phase.held_ptr is None else (phase.held_ptr + phase.edges.numel()).tolist()
    for block in range(phase.num_blocks):
        if nodes[block + 1] > nodes[block]:
            chosen: Tensor | slice = slice(edges[block], edges[block + 1])
            if held is not None:
                chosen = join_rows([chosen, slice(held[block], held[block + 1])], "cpu")
            yield messages.select(slice(nodes[block], nodes[block + 1]), chosen)


def _chunks(messages: Messages, chunk_rows: int) -> Iterator[Messages]:
    num_rows = messages.nodes.numel()
    position = torch.empty(int(messages.nodes.max()) + 1, dtype=torch.int64)
    position[messages.nodes] = torch.arange(num_rows)
    chunk = position[messages.dst].div(chunk_rows, rounding_mode="floor")
    order = chunk.argsort(stable=True)
    ends = torch.bincount(chunk, minlength=-(-num_rows // chunk_rows)).cumsum(0).tolist()
    for number, (start, stop) in enumerate(zip([0, *ends], ends)):
        rows = slice(number * chunk_rows, min((number + 1) * chunk_rows, num_rows))
        yield messages.select(rows, order[start:stop])


@dataclass(frozen=True, eq=False)
class BuiltPhase:
    """A phase in the one form that was built; runners take it like a :class:`~gpnn.engine.LoweredPhase`.

    Attributes:
        kind: what the phase is for: "all", "inside", "cut", ….
        chunks: its blocks.
        independent: whether no block reads a row that another writes.
        repeat: how often the step is done.
        closing: whether it ends a round that an earlier phase began; see :class:`gpnn.schedule.Phase`.
        sends_all: whether it sends over all edges at once, without blocks.
        num_held: how many of its edges are held.
    """

    kind: str
    chunks: tuple[Block, ...]
    independent: bool
    repeat: int
    closing: bool = False
    sends_all: bool = False
    num_held: int = 0

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
        if not self.independent and len(self.chunks) != 1:
            raise ValueError("A cell that is not `local` takes a phase's own blocks. Got a plan built in chunks.")
        return self.chunks

    @property
    def num_rows(self) -> int:
        return sum(block.num_rows for block in self.chunks)

    @property
    def num_edges(self) -> int:
        """How many edges send in every repeat."""
        return sum(block.num_entries for block in self.chunks) - self.num_held

    @cached_property
    def halo(self) -> Halo | None:
        """The rows that blocks read as they were at the start of the phase; None where nothing is held."""
        return halo_of(self.chunks) if self.num_held else None

    @property
    def num_halo(self) -> int:
        """How many rows blocks read as they were, H."""
        return 0 if self.halo is None else len(self.halo.rows)

    @property
    def piece_halo(self) -> int:
        """The most of them that one block reads."""
        return 0 if self.halo is None else max(map(len, self.halo.places))

    @property
    def piece_rows(self) -> int:
        """Rows of the largest block."""
        return max((block.num_rows for block in self.chunks), default=0)

    @cached_property
    def row_index(self) -> Tensor:
        """Plan rows that the phase writes, `[n]`, in the order of the blocks."""
        return join_rows([block.rows for block in self.chunks], self.chunks[0].operators[0].ptr.device)

    @cached_property
    def input_rows(self) -> Tensor:
        """Plan rows that the phase reads, distinct, `[m]`."""
        return rows_read(self.chunks)


class Halo(NamedTuple):
    """The rows that the blocks of a phase read as they were at its start.

    Attributes:
        rows: plan rows, distinct, `[H]`.
        places: for each block, where its :attr:`Block.others` stand in `rows`, `[m − n]`.
    """

    rows: Tensor
    places: tuple[Tensor, ...]


def halo_of(blocks: Sequence[Block]) -> Halo:
    """The halo of blocks that read each other's rows as they were."""
    device = blocks[0].operators[0].ptr.device
    others = [join_rows([block.others], device) for block in blocks]
    read = _marked(others, device)
    narrow = torch.int32 if device.type == "cuda" else torch.int64  # the CPU's kernels are compiled for one
    place = read.cumsum(0, dtype=narrow) - 1
    return Halo(read.nonzero().flatten(), tuple(place[each] for each in others))


def rows_read(blocks: Sequence[Block]) -> Tensor:
    """The rows that any of the blocks reads, distinct, `[m]`."""
    return _marked([block.inputs for block in blocks], blocks[0].operators[0].ptr.device).nonzero().flatten()


def _marked(rows: Sequence[Tensor | slice], device: torch.device) -> Tensor:
    """Which rows are among these, bool `[r]`, r one more than the largest: blocks may read a row many times over."""
    ends = (each.stop if isinstance(each, slice) else 1 + int(each.max()) if len(each) else 0 for each in rows)
    marked = torch.zeros(max(ends, default=0), dtype=torch.bool, device=device)
    for each in rows:
        marked[each] = True
    return marked


def join_rows(rows: Sequence[Tensor | slice], device: torch.device | str) -> Tensor:
    """The numbers of these rows one after the other, `[n]`."""
    numbers = [torch.arange(each.start, each.stop) if isinstance(each, slice) else each for each in rows]
    return torch.cat([each.to(device) for each in numbers])


@dataclass(frozen=True, eq=False)
class LoweredRows(Lowered):
    """A phase over a graph in CSR form, lowered where its rows lie, without a list of edges.

    Attributes:
        phase: what was lowered.
        layout: the graph's rows in plan order, with the rule that weighs messages.
    """

    phase: RowPhase
    layout: RowLayout

    @property
    def sends_all(self) -> bool:
        return self.kind == "all"

    @property
    def weighted(self) -> bool:
        """Whether each message has a weight of its own."""
        rule = self.layout.rule
        return rule.weight is not None or weighs_entries(rule.name, self.layout.ptr.device)

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
        """The most of them that one of `chunks` reads."""
        return int(self.phase.crossings.halo.max()) if self.num_held and self.phase.crossings is not None else 0

    @cached_property
    def num_copies(self) -> int:
        """How many rows of others `chunks` read, all together; counted on some of them where there is no partition."""
        if self.phase.crossings is not None:
            return int(self.phase.crossings.halo.sum()) if self.kind in ("held", "cut") else 0
        ends, ptr, col = self.layout.ends, self.layout.ptr, self.layout.col
        ranges = list(pairwise(ends))
        some = ranges[:: -(-len(ranges) // COUNTED)]
        senders = ((first, last, col[int(ptr[first]) : int(ptr[last])].unique()) for first, last in some)
        found = sum(int(((each < first) | (each >= last)).sum()) for first, last, each in senders)
        return found * len(ranges) // len(some)

    @property
    def scales_senders(self) -> bool:
        """Whether messages are weighed by a factor of their sender, which blocks have for every row that they read."""
        return is_symmetric(self.layout.rule.name)

    @cached_property
    def whole(self) -> Block:
        return self.layout.whole(self.phase.spec)

    @cached_property
    def chunks(self) -> tuple[Block, ...]:
        return self.layout.blocks(self.phase.spec)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The phase's own blocks, none of which reads a row that another writes."""
        return self.chunks if self.independent else (self.whole,)

    @cached_property
    def row_index(self) -> Tensor:
        """Plan rows that the phase writes, `[n]`, in the order of `whole` and of the pieces one after the other."""
        found = [self.whole] if "whole" in vars(self) else self.chunks
        return join_rows([block.rows for block in found], found[0].operators[0].ptr.device)
