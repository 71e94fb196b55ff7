"""Blocks of a phase over a graph in CSR form, made where its arrays lie, a range of plan rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.csr import row_entries
from gpnn.engine.block import Block, as_slice, narrowed, row_pointers, transposed
from gpnn.engine.normalize import inverse, is_symmetric, row_weights, symmetric_weight
from gpnn.graph.edges import sum_of_hashes
from gpnn.kernels import Operator
from gpnn.schedule import PhaseSpec

MANY_ROWS = 1 << 20  # whose own weights are summed at one time


@dataclass(frozen=True, eq=False)
class RowRule:
    """How messages over rows are weighed.

    Attributes:
        name: a rule of :mod:`gpnn.engine.normalize`.
        loop: weight of the self-loop that every node has: 1 or 0.
        weight: the graph's own weight of each entry, `[E]`, or None: all one.
        kind: the type of each entry, `[E]`, or None: there is one.
        num_kinds: number of types.
    """

    name: str = "phase"
    loop: float = 0.0
    weight: Tensor | None = None
    kind: Tensor | None = None
    num_kinds: int = 1

    @property
    def by_entry(self) -> bool:
        """Whether entries have something of their own, so that their places in the graph's rows are needed."""
        return self.weight is not None or self.kind is not None


def weighs_entries(rule: str, device: torch.device) -> bool:
    """Whether a symmetric rule's weights are stored with the entries, not as factors of their ends.

    A CPU reads them one after the other. A GPU has no memory to spare for billions, and no time to lose on reading.
    """
    return is_symmetric(rule) and device.type == "cpu"


@dataclass(frozen=True, eq=False)
class RowLayout:
    """A graph's rows in plan order, cut into ranges.

    Attributes:
        ptr: where each node's senders begin, `[N + 1]`.
        col: the senders, `[E]`.
        symmetric: whether the reverse of every edge is there equally often, with the same type and weight.
        order: plan row r is node `order[r]`, `[N]`; None where they are in order.
        ends: range p has the plan rows `ends[p]:ends[p + 1]`.
        sends: whether each plan row sends over the cut, bool `[N]`; None where that follows from receiving, as in a
            symmetric graph.
        rule: how messages are weighed.
    """

    ptr: Tensor
    col: Tensor
    symmetric: bool
    order: Tensor | None
    ends: tuple[int, ...]
    sends: Tensor | None = None
    rule: RowRule = RowRule()

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

    def degree(self, rows: Tensor | slice) -> Tensor:
        """The in-weight of plan rows over the whole graph, self-loop included, float64, `[n]`."""
        nodes = rows if self.order is None else self.order[rows]
        if self._in_weight is not None:
            return self._in_weight[nodes] + self.rule.loop
        after = slice(nodes.start + 1, nodes.stop + 1) if isinstance(nodes, slice) else nodes + 1
        return (self.ptr[after] - self.ptr[nodes]).double() + self.rule.loop

    @cached_property
    def _in_weight(self) -> Tensor | None:
        """The sum of |weight| over the edges into each node, float64, `[N]`; None where edges have no weights."""
        weight = self.rule.weight
        if weight is None:
            return None
        total = torch.empty(self.num_nodes, dtype=torch.float64, device=self.ptr.device)
        for first in range(0, self.num_nodes, MANY_ROWS):
            ptr = self.ptr[first : first + MANY_ROWS + 1]
            total[first : first + MANY_ROWS] = _sum_rows(weight[int(ptr[0]) : int(ptr[-1])], ptr.diff())
        return total

    def pieces(self) -> Iterator[Piece]:
        """The edges into each range that has rows."""
        for first, last in pairwise(self.ends):
            if last > first:
                yield self.gather(first, last)

    def blocks(self, spec: PhaseSpec) -> tuple[Block, ...]:
        """A block of a phase's edges into each range; none where no row of it updates."""
        completed = self._completed(spec)
        found = (self.block(spec, piece, completed) for piece in self.pieces())
        return tuple(block for block in found if block is not None)

    def block(self, spec: PhaseSpec, piece: Piece, completed: Tensor | None = None) -> Block | None:
        """The block of a phase's edges into a range; None where no row of it updates.

        `completed` are the in-weights of all rows inside the phase, `[N]`, where those of senders count.
        """
        kept = piece.kept(spec, self.rule.weight)
        if not bool(kept.updates.any()):
            return None
        return self._block(piece.first, kept, completed, copies=True, split=spec.kind == "held" and spec.repeat > 1)

    def whole(self, spec: PhaseSpec) -> Block:
        """All of a phase's edges as one block."""
        stored = self.rule.by_entry or weighs_entries(self.rule.name, self.ptr.device)
        if (
            spec.kind == "all"
            and self.order is None
            and self.symmetric
            and self.col.dtype == torch.int32
            and not stored
        ):
            ptr, col, size = self.ptr, self.col, self.num_nodes  # the graph's own arrays, its own transpose
            degree = ptr.diff().double()
            found = row_weights(self.rule.name, degree, degree + self.rule.loop, self.rule.loop)
            factors = found.row, found.row if is_symmetric(self.rule.name) else None
            operator = Operator((size, size), ptr, col, None, ptr, col, col[:0], *factors)
            return Block(slice(0, size), size, (operator,), (None,), None, found.diagonal)
        parts = [piece.kept(spec, self.rule.weight) for piece in self.pieces()]
        kept = Kept(*(torch.cat(each) for each in zip(*parts)))
        del parts
        held = spec.kind == "held" and spec.repeat > 1
        completed = kept.inside if self.rule.name == "symmetric_phase" else None
        return self._block(0, kept, completed, copies=held, split=held)

    def _completed(self, spec: PhaseSpec) -> Tensor | None:
        """The in-weights of all rows inside a phase, `[N]`, for the rule that also takes those of senders."""
        if self.rule.name != "symmetric_phase":
            return None
        return torch.cat([piece.kept(spec, self.rule.weight).inside for piece in self.pieces()])

    def _block(self, first: int, kept: Kept, completed: Tensor | None, *, copies: bool, split: bool) -> Block:
        """A block of edges by receiver.

        Where no sender is read from outside the rows, a symmetric graph's operator is its own transpose.

        Args:
            first: plan row of the first of `kept.updates`.
            kept: the edges.
            completed: as of :meth:`block`.
            copies: whether senders of other ranges are read as copies beside the rows, not among them.
            split: whether edges from the rows and from others will be used apart.
        """
        nodes, num_rows, rule = kept.updates.nonzero().flatten(), len(kept.updates), self.rule
        place = kept.sender - first
        own = ~kept.crosses if copies else (place >= 0) & (place < num_rows)
        own &= kept.updates[place.clamp(0, num_rows - 1)]
        senders, others = kept.sender[~own].unique(return_inverse=True)
        position = (kept.updates.cumsum(0) - 1).int()
        column = torch.empty_like(place, dtype=torch.int32)
        column[own] = position[place[own]]
        column[~own] = others.int() + len(nodes)
        del place, own, others
        inputs = torch.cat([nodes + first, senders.long()])
        weights = row_weights(rule.name, kept.inside[nodes].double(), self.degree(nodes + first), rule.loop)
        entries = Entries(kept.counts[nodes], column, kept.entry)
        operators, raw_weights, degree = [], [], None
        if is_symmetric(rule.name):
            degree = self.degree(inputs) if completed is None else completed[inputs].double() + rule.loop
        for number in range(rule.num_kinds):
            some = entries if rule.kind is None else entries.select(rule.kind[kept.entry] == number)
            raw = None if rule.weight is None else rule.weight[some.entry]
            operators.append(self._operator(some, raw, (len(nodes), len(inputs)), weights.row, degree))
            raw_weights.append(raw)
        if split and self.symmetric and len(operators) == 1 and operators[0].weight is None:
            operators = [replace(operators[0], split=_split(operators[0]))]
        kept_degree = degree if weighs_entries(rule.name, column.device) else None  # else factors are exact
        compact = as_slice(narrowed(inputs, self.num_nodes))
        return Block(compact, len(nodes), tuple(operators), tuple(raw_weights), None, weights.diagonal, kept_degree)

    def _operator(
        self, entries: Entries, raw: Tensor | None, shape: tuple[int, int], row: Tensor | None, degree: Tensor | None
    ) -> Operator:
        """The operator of a block's entries of one type.

        Args:
            entries: by receiver.
            raw: the graph's own weights of them, `[e]`, or None.
            shape: rows and inputs.
            row: a factor of each row, `[n]`, or None.
            degree: under a symmetric rule, that of each input, `[m]`.
        """
        ptr, col, weight, col_scale = row_pointers(entries.counts, len(entries.column)), entries.column, raw, None
        if degree is not None and weighs_entries(self.rule.name, col.device):
            given = torch.ones(len(col), dtype=torch.float64) if raw is None else raw.double()
            weight = symmetric_weight(given, degree[col], degree[entries.rows()])
            weight, row = weight.to(torch.float32 if raw is None else raw.dtype), None
        elif degree is not None:
            col_scale = inverse(degree.sqrt())
        t_ptr, t_row, t_entry = ptr, col, col[:0]
        if not self.symmetric or shape[0] != shape[1]:
            t_ptr, t_row, t_entry = transposed(entries.counts, col, shape[1], with_entry=weight is not None)
        elif weight is not None:  # whose reverse has the same
            t_entry = torch.arange(len(col), dtype=torch.int32, device=col.device)
        return Operator(shape, ptr, col, weight, t_ptr, t_row, t_entry, row, col_scale)

    def gather(self, first: int, last: int) -> Piece:
        """The edges into the plan rows `first:last`."""
        device = self.ptr.device
        if self.order is None:
            degree, begin, end = self.ptr[first : last + 1].long().diff(), int(self.ptr[first]), int(self.ptr[last])
            sender = self.col[begin:end]
            entry = torch.arange(begin, end, device=device) if self.rule.by_entry else degree[:0]
        else:
            assert self.place is not None
            degree, entry = row_entries(self.ptr, self.order[first:last])
            sender = self.place[self.col[entry]]
        row = torch.repeat_interleave(torch.arange(last - first, dtype=torch.int32, device=device), degree)
        sends = None if self.sends is None else self.sends[first:last]
        crosses = (sender < first) | (sender >= last)
        return Piece(first, last, row, sender, crosses, entry if self.rule.by_entry else entry[:0], sends)


class Kept(NamedTuple):
    """The edges of a phase into a range of plan rows, by receiver.

    Attributes:
        counts: edges into each row that updates, and 0 for others, `[n]`.
        sender: plan row of each edge's sender, `[e]`.
        crosses: whether it lies in another range, `[e]`.
        updates: whether each row updates, bool `[n]`.
        inside: in-weight of each row over these edges, `[n]`: `counts` where they have no weights.
        entry: as in :class:`Piece`.
    """

    counts: Tensor
    sender: Tensor
    crosses: Tensor
    updates: Tensor
    inside: Tensor
    entry: Tensor


@dataclass(frozen=True, eq=False)
class Piece:
    """The edges into a range of plan rows, by receiver."""

    first: int  # its plan rows are first:last
    last: int
    row: Tensor  # [e] receiver, counted from `first`
    sender: Tensor  # [e] plan row
    crosses: Tensor  # [e] whether the sender lies elsewhere
    entry: Tensor  # [e] where the edge stands in `col`, int64; empty where entries have nothing of their own
    sends: Tensor | None  # [n] whether each row sends over the cut, where that does not follow from receiving

    def digest(self) -> int:
        """This range's share of the digest of the graph's edges, in plan rows, as states and features stand."""
        return sum_of_hashes(self.sender, self.row + self.first)

    def kept(self, spec: PhaseSpec, weight: Tensor | None = None) -> Kept:
        """A phase's edges into this range, which may have weights of their own, `[E]`."""
        chosen: Tensor | slice = slice(None)
        if spec.kind in ("inside", "cut"):
            chosen = self.crosses if spec.kind == "cut" else ~self.crosses
        counts = torch.bincount(self.row[chosen], minlength=self.last - self.first)
        updates = torch.ones_like(counts, dtype=torch.bool)
        if spec.kind == "cut" or spec.update == "receivers":  # in a symmetric graph what sends over the cut receives
            updates = counts > 0
            if spec.kind == "cut" and spec.update == "members" and self.sends is not None:
                updates |= self.sends
        entry = self.entry[chosen] if len(self.entry) else self.entry
        inside = counts if weight is None else _sum_rows(weight[entry], counts)
        return Kept(counts, self.sender[chosen], self.crosses[chosen], updates, inside, entry)


class Entries(NamedTuple):
    """The entries of an operator by row."""

    counts: Tensor  # [n] entries of each row
    column: Tensor  # [e] int32
    entry: Tensor  # [e] as in :class:`Piece`

    def rows(self) -> Tensor:
        """The row of each entry, int32, `[e]`."""
        numbers = torch.arange(len(self.counts), dtype=torch.int32, device=self.column.device)
        return torch.repeat_interleave(numbers, self.counts)

    def select(self, chosen: Tensor) -> Entries:
        """Those of a mask, `[e]`."""
        counts = torch.bincount(self.rows()[chosen], minlength=len(self.counts))
        return Entries(counts, self.column[chosen], self.entry[chosen])


def _sum_rows(weight: Tensor, counts: Tensor) -> Tensor:
    """The sum of |weight| over each row, float64, `[n]`, given the weights by row, `[e]`, in a fixed order."""
    return torch.segment_reduce(weight.abs().double(), "sum", lengths=counts)


def _split(operator: Operator) -> tuple[Operator, Operator]:
    """The entries in the block's own columns, `[n, n]`, and in the others, `[n, m − n]`, of a symmetric graph.

    Those in its own are symmetric, so that their part of the transpose, which comes first, serves as both.
    """
    n, m = operator.shape
    num_own = int(operator.t_ptr[n])
    ptr, col, none = operator.t_ptr[: n + 1], operator.t_row[:num_own], operator.t_entry
    scales = (None, None) if operator.col_scale is None else operator.col_scale.split([n, m - n])
    inside = Operator((n, n), ptr, col, None, ptr, col, none, col_scale=scales[0])
    crosses = operator.col >= n
    cut_col = operator.col[crosses] - n
    cut_ptr = row_pointers(torch.bincount(operator.rows()[crosses], minlength=n), len(cut_col))
    t_ptr, t_row = operator.t_ptr[n:] - num_own, operator.t_row[num_own:]
    return inside, Operator((n, m - n), cut_ptr, cut_col, None, t_ptr, t_row, none, col_scale=scales[1])
