"""Blocks of a phase over a graph in CSR form, made where its arrays lie, a range of plan rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.csr import pointers, slices
from gpnn.engine.block import Block, BlockBuilder, Messages, as_slice
from gpnn.engine.normalize import Normalizer, inverse
from gpnn.graph import Graph
from gpnn.graph.edges import CHUNK, receivers, sum_of_hashes
from gpnn.kernels import Operator
from gpnn.schedule import PhaseSpec


@dataclass(frozen=True, eq=False)
class RowLayout:
    """A graph's rows in plan order, cut into ranges.

    Attributes:
        ptr: where each node's senders begin, `[N + 1]`.
        col: the senders, `[E]`.
        symmetric: whether the reverse of every edge is there equally often.
        order: plan row r is node `order[r]`, `[N]`; None where they are in order.
        ends: range p has the plan rows `ends[p]:ends[p + 1]`.
        sends: whether each plan row sends over the cut, bool `[N]`; None where that follows from receiving, as in a
            symmetric graph.
    """

    ptr: Tensor
    col: Tensor
    symmetric: bool
    order: Tensor | None
    ends: tuple[int, ...]
    sends: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        return self.ptr.numel() - 1

    @cached_property
    def place(self) -> Tensor | None:
        """The plan row of each node, `[N]`, int32 where it fits."""
        if self.order is None:
            return None
        narrow = torch.int32 if self.num_nodes < 2**31 else torch.int64
        place = torch.empty(self.num_nodes, dtype=narrow, device=self.ptr.device)
        place[self.order] = torch.arange(self.num_nodes, dtype=narrow, device=self.ptr.device)
        return place

    def pieces(self) -> Iterator[Piece]:
        """The edges into each range that has rows."""
        for first, last in pairwise(self.ends):
            if last > first:
                yield self.gather(first, last)

    def blocks(self, spec: PhaseSpec, rule: str) -> tuple[Block, ...]:
        """A block of a phase's edges into each range; none where no row of it updates."""
        found = (piece.block(spec, rule) for piece in self.pieces())
        return tuple(block for block in found if block is not None)

    def whole(self, spec: PhaseSpec, rule: str) -> Block:
        """All of a phase's edges as one block."""
        if spec.kind == "all" and self.order is None and self.symmetric and self.col.dtype == torch.int32:
            ptr, col, size = self.ptr, self.col, self.num_nodes  # the graph's own arrays, its own transpose
            operator = Operator((size, size), ptr, col, None, ptr, col, col[:0], inverse(ptr.diff().double()))
            return Block(slice(0, size), size, (operator,), (None,), None, None)
        parts = [piece.kept(spec, rule) for piece in self.pieces()]
        joined = [torch.cat(each) for each in zip(*parts)]
        held = spec.kind == "held" and spec.repeat > 1
        return _block(0, Kept(*joined), copies=held, split=held, symmetric=self.symmetric)

    def gather(self, first: int, last: int) -> Piece:
        """The edges into the plan rows `first:last`."""
        degree, row, entry = self.entries(first, last, listed=self.order is not None)
        if self.order is None:
            sender = self.col[int(self.ptr[first]) : int(self.ptr[last])]
        else:
            assert self.place is not None
            sender = self.place[self.col[entry].long()]
        sends = None if self.sends is None else self.sends[first:last]
        crosses = (sender < first) | (sender >= last)
        return Piece(first, last, row, sender, crosses, degree, sends, self.symmetric)

    def entries(self, first: int, last: int, *, listed: bool = True) -> Entries:
        """Where the edges into the plan rows `first:last` stand in `col`; unless `listed`, their rows alone."""
        device, nodes = self.ptr.device, slice(first, last) if self.order is None else self.order[first:last]
        after = slice(first + 1, last + 1) if isinstance(nodes, slice) else nodes + 1
        begin = self.ptr[nodes].long()
        degree = self.ptr[after].long() - begin
        row = torch.repeat_interleave(torch.arange(last - first, device=device), degree)
        if not listed:
            return Entries(degree, row, row[:0])
        start = begin - (degree.cumsum(0) - degree)
        return Entries(degree, row, torch.arange(len(row), device=device) + start[row])


class Entries(NamedTuple):
    """The edges into a range of plan rows, by receiver."""

    degree: Tensor  # [n] edges into each row
    row: Tensor  # [e] receiver, counted from the first row
    entry: Tensor  # [e] where the edge stands in `col`, which is its id


class Kept(NamedTuple):
    """The edges of a phase into a range of plan rows, by receiver.

    Attributes:
        counts: edges into each row that updates, and 0 for others, `[n]`.
        sender: plan row of each edge's sender, `[e]`.
        crosses: whether it lies in another range, `[e]`.
        updates: whether each row updates, bool `[n]`.
        divisor: what the sum of messages to each row is divided by, `[n]`.
    """

    counts: Tensor
    sender: Tensor
    crosses: Tensor
    updates: Tensor
    divisor: Tensor


@dataclass(frozen=True, eq=False)
class Piece:
    """The edges into a range of plan rows, by receiver."""

    first: int  # its plan rows are first:last
    last: int
    row: Tensor  # [e] receiver, counted from `first`
    sender: Tensor  # [e] plan row
    crosses: Tensor  # [e] whether the sender lies elsewhere
    degree: Tensor  # [n] edges into each receiver
    sends: Tensor | None  # [n] whether each row sends over the cut, where that does not follow from receiving
    symmetric: bool

    def digest(self) -> int:
        """This range's share of the digest of the graph's edges, in plan rows, as states and features stand."""
        return sum_of_hashes(self.sender, self.row + self.first)

    def chosen(self, spec: PhaseSpec) -> Tensor | slice:
        """Which of the edges a phase has, `[e]`."""
        if spec.kind not in ("inside", "cut"):
            return slice(None)
        return self.crosses if spec.kind == "cut" else ~self.crosses

    def kept(self, spec: PhaseSpec, rule: str) -> Kept:
        """A phase's edges into this range."""
        chosen = self.chosen(spec)
        counts = torch.bincount(self.row[chosen], minlength=self.last - self.first)
        updates = torch.ones_like(counts, dtype=torch.bool)
        if spec.kind == "cut" or spec.update == "receivers":  # in a symmetric graph what sends over the cut receives
            updates = counts > 0
            if spec.kind == "cut" and spec.update == "members" and self.sends is not None:
                updates |= self.sends
        divisor = counts if rule == "phase" else self.degree
        return Kept(counts, self.sender[chosen], self.crosses[chosen], updates, divisor)

    def block(self, spec: PhaseSpec, rule: str) -> Block | None:
        """The block of a phase's edges into this range; None where no row of it updates."""
        kept = self.kept(spec, rule)
        if not bool(kept.updates.any()):
            return None
        return _block(self.first, kept, copies=True, split=spec.kind == "held", symmetric=self.symmetric)


def _block(first: int, kept: Kept, *, copies: bool, split: bool, symmetric: bool) -> Block:
    """A block of edges by receiver, whose rows begin at plan row `first`.

    Where no sender is read from outside the rows, a symmetric graph's operator is its own transpose.

    Args:
        first: plan row of the first of `kept.updates`.
        kept: the edges.
        copies: whether senders of other ranges are read as copies beside the rows, not among them.
        split: whether edges from the rows and from others will be used apart.
        symmetric: whether the graph is.
    """
    nodes, num_rows = kept.updates.nonzero().flatten(), len(kept.updates)
    place = kept.sender.long() - first
    own = ~kept.crosses if copies else (place >= 0) & (place < num_rows)
    own &= kept.updates[place.clamp(0, num_rows - 1)]
    senders, others = kept.sender[~own].unique(return_inverse=True)
    position = kept.updates.cumsum(0) - 1
    column = torch.empty_like(place)
    column[own] = position[place[own]]
    column[~own] = others + len(nodes)
    counts = kept.counts[nodes]
    inputs = torch.cat([nodes + first, senders.long()])
    shape, ptr, col = (len(nodes), len(inputs)), pointers(counts), column.int()
    t_ptr, t_row = ptr, col
    if not symmetric or shape[0] != shape[1]:
        row = torch.repeat_interleave(torch.arange(len(nodes), device=col.device), counts)
        t_ptr = pointers(torch.bincount(column, minlength=len(inputs)))
        t_row = row[column.argsort(stable=True)].int()
    operator = Operator(shape, ptr, col, None, t_ptr, t_row, col[:0], inverse(kept.divisor[nodes].double()))
    if split and symmetric:
        operator = replace(operator, split=_split(operator))
    return Block(as_slice(inputs), len(nodes), (operator,), (None,), None, None)


def _split(operator: Operator) -> tuple[Operator, Operator]:
    """The entries in the block's own columns, `[n, n]`, and in the others, `[n, m − n]`, of a symmetric graph.

    Those in its own are symmetric, so that their part of the transpose, which comes first, serves as both.
    """
    n, m = operator.shape
    num_own = int(operator.t_ptr[n])
    ptr, col, none = operator.t_ptr[: n + 1], operator.t_row[:num_own], operator.t_entry
    inside = Operator((n, n), ptr, col, None, ptr, col, none)
    crosses = operator.col >= n
    cut_ptr, cut_col = pointers(torch.bincount(operator.rows()[crosses], minlength=n)), operator.col[crosses] - n
    t_ptr, t_row = operator.t_ptr[n:] - num_own, operator.t_row[num_own:]
    return inside, Operator((n, m - n), cut_ptr, cut_col, None, t_ptr, t_row, none)


class Edges(NamedTuple):
    """The edges of a phase into a range of plan rows."""

    nodes: Tensor  # [n] plan rows that update
    src: Tensor  # [e] plan row of each sender
    dst: Tensor  # [e] and of each receiver
    entry: Tensor  # [e] the edge's id
    crosses: Tensor  # [e] whether the sender lies in another range


@dataclass(frozen=True, eq=False)
class RowMessages:
    """What :class:`RowLayout` makes without weights, with those of any rule, the graph's own, types and loops.

    Attributes:
        graph: over rows.
        layout: its rows in plan order, on the CPU.
        rule: a rule of :mod:`gpnn.engine.normalize`.
        self_loops: whether every node also receives its own message.
        builder: makes blocks, on the plan's device.
    """

    graph: Graph
    layout: RowLayout
    rule: str
    self_loops: bool
    builder: BlockBuilder

    def blocks(self, spec: PhaseSpec) -> tuple[Block, ...]:
        """A block of a phase's edges into each range; none where no row of it updates."""
        completed = self._completed(spec)
        found = (self._edges(spec, *ends) for ends in pairwise(self.layout.ends))
        return tuple(self._build(spec, edges, completed) for edges in found if len(edges.nodes))

    def whole(self, spec: PhaseSpec) -> Block:
        """All of a phase's edges as one block."""
        found = [self._edges(spec, *ends) for ends in pairwise(self.layout.ends)]
        return self._build(spec, Edges(*map(torch.cat, zip(*found))), None)

    def _edges(self, spec: PhaseSpec, first: int, last: int) -> Edges:
        piece = self.layout.gather(first, last)
        kept = piece.kept(spec, "phase")
        chosen = piece.chosen(spec)
        entry = self.layout.entries(first, last).entry[chosen]
        nodes = kept.updates.nonzero().flatten() + first
        return Edges(nodes, kept.sender.long(), piece.row[chosen] + first, entry, kept.crosses)

    def _build(self, spec: PhaseSpec, edges: Edges, completed: Tensor | None) -> Block:
        """The block of some edges; `completed` are the in-weights of all rows inside the phase, where they count."""
        own_type, own_weight = (
            None if values is None else values[edges.entry].cpu()
            for values in (self.graph.edge_type, self.graph.edge_weight)
        )
        local = Graph(edges.src, edges.dst, self.graph.num_nodes, None, own_weight)
        complete = None if completed is None else _completion(completed, edges.src)
        rule = Normalizer(self.rule, local, None, float(self.self_loops), self._degree, self._scratch, complete)
        weights = rule.phase_weights(torch.arange(len(edges.src)), edges.nodes)
        dtype = torch.float32 if own_weight is None else own_weight.dtype
        messages = Messages(
            edges.nodes,
            edges.src,
            edges.dst,
            edges.entry,
            None if weights.edge is None else weights.edge.to(dtype),
            weights.row,
            own_weight,
            own_type if self.graph.num_edge_types > 1 and own_type is not None else None,
            weights.diagonal,
            weights.degrees,
            edges.crosses if spec.kind == "held" and spec.repeat > 1 else None,
        )
        return self.builder.build(messages)

    @cached_property
    def _degree(self) -> Tensor:
        """The in-weight of each plan row over the whole graph, self-loop included, float64, `[N]`."""
        graph, order = self.graph, self.layout.order
        if graph.edge_weight is None:
            degree = graph.in_degree.double()
        else:
            degree = torch.zeros(graph.num_nodes, dtype=torch.float64)
            for chunk in slices(graph.num_edges, CHUNK):
                degree.index_add_(0, receivers(self.layout.ptr, chunk), graph.edge_weight[chunk].cpu().abs().double())
        return (degree if order is None else degree[order]) + float(self.self_loops)

    @cached_property
    def _scratch(self) -> Tensor:
        return torch.zeros(self.graph.num_nodes, dtype=torch.float64)

    def _completed(self, spec: PhaseSpec) -> Tensor | None:
        """The in-weights of all rows inside a phase, `[N]`, for the rule that also takes those of senders."""
        if self.rule != "symmetric_phase":
            return None
        total = torch.zeros(self.graph.num_nodes, dtype=torch.float64)
        for ends in pairwise(self.layout.ends):
            edges = self._edges(spec, *ends)
            weight = self.graph.edge_weight
            own = torch.ones(len(edges.dst)) if weight is None else weight[edges.entry].cpu().abs()
            total.index_add_(0, edges.dst, own.double())
        return total


def _completion(total: Tensor, senders: Tensor) -> Callable[[Tensor], None]:
    def complete(inside: Tensor) -> None:
        inside[senders] = total[senders]

    return complete


def needs_messages(graph: Graph, rule: str, self_loops: bool, plain: Sequence[str]) -> bool:
    """Whether messages are weighted otherwise than by rows, typed, or sent to oneself; `plain` rules weigh by rows."""
    return rule not in plain or self_loops or graph.edge_weight is not None or graph.num_edge_types > 1
