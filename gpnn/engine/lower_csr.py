"""lower_csr: a schedule over a symmetric graph in CSR form, lowered where its arrays lie.

For graphs whose edge lists are too long for Python's own memory or for one CPU thread: nothing of the size of the edges
is made besides the plan's own arrays, and those of the inside edges serve as their own transpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from gpnn.check import check_choice, check_count
from gpnn.csr import pointers
from gpnn.engine.block import Block, as_slice
from gpnn.engine.lowered_phase import BuiltPhase
from gpnn.engine.plan import Plan
from gpnn.graph.edges import sum_of_hashes
from gpnn.kernels import Operator
from gpnn.schedule import PhaseSpec

RULES = ("phase", "graph")


def lower_csr(
    ptr: Tensor,
    col: Tensor,
    order: Tensor,
    part_ptr: Tensor,
    phases: Sequence[PhaseSpec],
    *,
    rounds: int,
    normalization: str = "phase",
) -> Plan:
    """Rounds of these phases, ready to run in plan order; a part's receivers are a block.

    Args:
        ptr: where each node's neighbours begin, `[N + 1]`.
        col: the neighbours, `[E]`; the graph must be symmetric, multiplicities included.
        order: the nodes grouped by part: plan row r is node `order[r]`, `[N]`.
        part_ptr: part p owns plan rows `part_ptr[p]:part_ptr[p + 1]`, `[K + 1]`.
        phases: of one round: :func:`gpnn.schedule.partitioned_phases`, :func:`gpnn.schedule.held_cut_phases` or
            :func:`gpnn.schedule.synchronous_phases`.
        rounds: number of rounds T.
        normalization: "phase" or "graph", as in :mod:`gpnn.engine.normalize`; messages are not weighted otherwise.

    Raises:
        ValueError: when the rule is unknown, there is no phase, or the arrays do not fit each other.

    >>> from gpnn.schedule import partitioned_phases, synchronous_phases
    >>> ring = torch.arange(0, 9, 2), torch.tensor([1, 3, 0, 2, 1, 3, 0, 2])
    >>> parts = torch.arange(4), torch.tensor([0, 2, 4])
    >>> [lower_csr(*ring, *parts, each, rounds=3).num_updates for each in (partitioned_phases(), synchronous_phases())]
    [24, 12]
    """
    check_choice("normalization", normalization, RULES)
    check_count("rounds", rounds, at_least=1)
    if not phases:
        raise ValueError("`phases` must hold at least one phase. Got none.")
    blocks: list[list[Block]] = [[] for _ in phases]
    digest = num_held = 0
    for piece in _pieces(ptr, col, order, part_ptr):
        digest += piece.digest()
        num_held += int(piece.crosses.sum())
        for spec, found in zip(phases, blocks):
            found.extend(piece.blocks(spec, normalization))
    built = (_phase(spec, tuple(found), num_held) for spec, found in zip(phases, blocks) if found)
    return Plan(
        rounds=(tuple(built),) * rounds,
        order=None,
        device=ptr.device,
        normalization=normalization,
        num_nodes=ptr.numel() - 1,
        num_virtual=0,
        num_edge_types=1,
        source=None,
        edge_digest=digest & 0xFFFFFFFFFFFFFFFF,
    )


def _phase(spec: PhaseSpec, blocks: tuple[Block, ...], num_crossing: int) -> BuiltPhase:
    independent = spec.kind in ("inside", "held") or len(blocks) == 1
    num_held = num_crossing if spec.kind == "held" else 0
    return BuiltPhase(spec.kind, blocks, independent, spec.repeat, spec.closing, spec.kind == "all", num_held)


def _pieces(ptr: Tensor, col: Tensor, order: Tensor, part_ptr: Tensor) -> Iterator[_Piece]:
    """The edges into each part that has nodes."""
    num_nodes, ends = ptr.numel() - 1, part_ptr.tolist()
    if order.numel() != num_nodes or ends[0] != 0 or ends[-1] != num_nodes:
        raise ValueError(
            f"`order` and `part_ptr` must cover the {num_nodes} nodes. Got {order.numel()} and {ends[-1]}."
        )
    narrow = torch.int32 if num_nodes < 2**31 else torch.int64
    place = torch.empty(num_nodes, dtype=narrow, device=ptr.device)
    place[order] = torch.arange(num_nodes, dtype=narrow, device=ptr.device)
    for first, last in pairwise(ends):
        if last > first:
            yield _Piece.gather(ptr, col, order, place, first, last)


@dataclass(frozen=True)
class _Piece:
    """The edges into the nodes of one part, by receiver."""

    first: int  # its plan rows are first:last
    last: int
    row: Tensor  # [e] receiver, counted from `first`
    sender: Tensor  # [e] plan row
    crosses: Tensor  # [e] whether the sender lies elsewhere
    degree: Tensor  # [n] edges into each receiver

    @classmethod
    def gather(cls, ptr: Tensor, col: Tensor, order: Tensor, place: Tensor, first: int, last: int) -> _Piece:
        nodes = order[first:last]
        begin = ptr[nodes].long()
        degree = ptr[nodes + 1].long() - begin
        row = torch.repeat_interleave(torch.arange(last - first, device=ptr.device), degree)
        start = begin - (degree.cumsum(0) - degree)
        entry = torch.arange(len(row), device=ptr.device) + start[row]
        sender = place[col[entry].long()]
        return cls(first, last, row, sender, (sender < first) | (sender >= last), degree)

    def digest(self) -> int:
        """This part's share of the digest of the graph's edges, in plan rows, as states and features stand."""
        return sum_of_hashes(self.sender, self.row + self.first)

    def blocks(self, spec: PhaseSpec, rule: str) -> Iterator[Block]:
        """The block of a phase's edges into this part; nothing where no node of it updates."""
        kept = {"inside": ~self.crosses, "cut": self.crosses}.get(spec.kind, slice(None))
        row, sender, crosses = self.row[kept], self.sender[kept], self.crosses[kept]
        degree = torch.bincount(row, minlength=self.last - self.first)
        updates = torch.ones_like(degree, dtype=torch.bool)
        if spec.kind == "cut" or spec.update == "receivers":  # in a symmetric graph what sends over the cut receives
            updates = degree > 0
        nodes, position = updates.nonzero().flatten(), updates.cumsum(0) - 1
        if not len(nodes):
            return
        scale = _scale((degree if rule == "phase" else self.degree)[nodes])
        senders, place = sender[crosses].unique(return_inverse=True)
        column = torch.empty_like(row)
        column[~crosses] = position[sender[~crosses].long() - self.first]
        column[crosses] = place + len(nodes)
        inputs = torch.cat([nodes + self.first, senders.long()])
        yield _block(inputs, degree[nodes], position[row], column, scale, split=spec.kind == "held")


def _block(inputs: Tensor, degree: Tensor, row: Tensor, column: Tensor, scale: Tensor, *, split: bool) -> Block:
    """A block of edges by receiver: `degree` of each receiver `[n]`; row and column of each edge in `inputs`, `[e]`.

    Where no sender is in another part the operator is symmetric, as the graph is: its arrays are its transpose's.
    """
    shape, ptr, col = (len(degree), len(inputs)), pointers(degree), column.int()
    t_ptr, t_row = ptr, col
    if shape[0] != shape[1]:
        t_ptr = pointers(torch.bincount(column, minlength=len(inputs)))
        t_row = row[column.argsort(stable=True)].int()
    operator = Operator(shape, ptr, col, None, t_ptr, t_row, col[:0], scale)
    if split:
        operator = replace(operator, split=_split(operator, row))
    return Block(as_slice(inputs), len(degree), (operator,), (None,), None, None)


def _split(operator: Operator, row: Tensor) -> tuple[Operator, Operator]:
    """The entries in the block's own columns, `[n, n]`, and in the others, `[n, m − n]`.

    Those in its own are symmetric, so that their part of the transpose, which comes first, serves as both.
    """
    n, m = operator.shape
    num_own = int(operator.t_ptr[n])
    ptr, col, none = operator.t_ptr[: n + 1], operator.t_row[:num_own], operator.t_entry
    inside = Operator((n, n), ptr, col, None, ptr, col, none)
    crosses = operator.col >= n
    cut_ptr, cut_col = pointers(torch.bincount(row[crosses], minlength=n)), operator.col[crosses] - n
    t_ptr, t_row = operator.t_ptr[n:] - num_own, operator.t_row[num_own:]
    return inside, Operator((n, m - n), cut_ptr, cut_col, None, t_ptr, t_row, none)


def _scale(degree: Tensor) -> Tensor:
    return torch.where(degree > 0, 1 / degree.double(), 0.0)
