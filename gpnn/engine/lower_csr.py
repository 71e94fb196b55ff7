"""lower_csr: a partition schedule over a symmetric graph in CSR form, lowered where its arrays lie.

For graphs whose edge lists are too long for Python's own memory or for one CPU thread: nothing of the size of the edges
is made besides the plan's own arrays, and those of the inside edges serve as their own transpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.csr import pointers
from gpnn.engine.block import Block
from gpnn.engine.lowered_phase import BuiltPhase
from gpnn.engine.plan import Plan
from gpnn.graph.edges import sum_of_hashes
from gpnn.kernels import Operator

RULES = ("phase", "graph")


def lower_csr(
    ptr: Tensor,
    col: Tensor,
    order: Tensor,
    part_ptr: Tensor,
    *,
    rounds: int,
    intra: int = 1,
    cut: int = 1,
    normalization: str = "phase",
) -> Plan:
    """The schedule of :func:`gpnn.schedule.partitioned` with `update="members"`, ready to run in plan order.

    Args:
        ptr: where each node's neighbours begin, `[N + 1]`.
        col: the neighbours, `[E]`; the graph must be symmetric, multiplicities included.
        order: the nodes grouped by part: plan row r is node `order[r]`, `[N]`.
        part_ptr: part p owns plan rows `part_ptr[p]:part_ptr[p + 1]`, `[K + 1]`.
        rounds: number of rounds T.
        intra: steps inside the parts per round, T_S.
        cut: steps over the cut edges per round, T_C.
        normalization: "phase" or "graph", as in :mod:`gpnn.engine.normalize`; messages are not weighted otherwise.

    Raises:
        ValueError: when the rule is unknown or the arrays do not fit each other.

    >>> ring = torch.tensor([1, 3, 0, 2, 1, 3, 0, 2])
    >>> lower_csr(torch.arange(0, 9, 2), ring, torch.arange(4), torch.tensor([0, 2, 4]), rounds=3).num_messages
    24
    """
    check_choice("normalization", normalization, RULES)
    inside, between, digest = [], [], 0
    for piece in _pieces(ptr, col, order, part_ptr):
        digest += piece.digest()
        inside.append(piece.inside(normalization))
        if bool(piece.crosses.any()):
            between.append(piece.between(normalization))
    phases = [BuiltPhase("inside", tuple(inside), True, intra)] if intra else []
    if between and cut:
        phases.append(BuiltPhase("cut", tuple(between), False, cut, closing=True))
    return _plan(tuple(phases), rounds, ptr, normalization, digest)


def lower_csr_synchronous(ptr: Tensor, col: Tensor, order: Tensor, part_ptr: Tensor, *, rounds: int) -> Plan:
    """The schedule of :func:`gpnn.schedule.synchronous`, a part's receivers at a time; messages are means.

    Args:
        ptr: where each node's neighbours begin, `[N + 1]`.
        col: the neighbours, `[E]`.
        order: the nodes grouped by part, `[N]`.
        part_ptr: part p owns plan rows `part_ptr[p]:part_ptr[p + 1]`, `[K + 1]`.
        rounds: number of rounds T.

    >>> ring = torch.tensor([1, 3, 0, 2, 1, 3, 0, 2])
    >>> plan = lower_csr_synchronous(torch.arange(0, 9, 2), ring, torch.arange(4), torch.tensor([0, 2, 4]), rounds=3)
    >>> plan.num_messages, plan.num_updates
    (24, 12)
    """
    blocks, digest = [], 0
    for piece in _pieces(ptr, col, order, part_ptr):
        digest += piece.digest()
        blocks.append(piece.everything())
    everything = BuiltPhase("all", tuple(blocks), len(blocks) == 1, 1, sends_all=True)
    return _plan((everything,), rounds, ptr, "phase", digest)


def _plan(phases: tuple[BuiltPhase, ...], rounds: int, ptr: Tensor, normalization: str, digest: int) -> Plan:
    return Plan(
        rounds=(phases,) * rounds,
        order=None,
        device=ptr.device,
        normalization=normalization,
        num_nodes=ptr.numel() - 1,
        num_virtual=0,
        num_edge_types=1,
        source=None,
        edge_digest=digest & 0xFFFFFFFFFFFFFFFF,
    )


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

    def inside(self, rule: str) -> Block:
        """The block of the edges that stay in the part; the graph is symmetric, and so is its operator."""
        kept, count = ~self.crosses, self.last - self.first
        col = (self.sender[kept] - self.first).int()
        degree = torch.bincount(self.row[kept], minlength=count)
        ptr, scale = pointers(degree), _scale(degree if rule == "phase" else self.degree)
        operator = Operator((count, count), ptr, col, None, ptr, col, col[:0], scale)
        return Block(slice(self.first, self.last), count, (operator,), (None,), None, None)

    def between(self, rule: str) -> Block:
        """The block of the edges from other parts into the nodes of this one that have any."""
        row, sender = self.row[self.crosses], self.sender[self.crosses]
        degree = torch.bincount(row, minlength=self.last - self.first)
        receivers = degree.nonzero().flatten()
        senders, place = sender.unique(return_inverse=True)
        position = torch.cumsum(degree > 0, 0) - 1  # of each receiver among them
        scale = _scale((degree if rule == "phase" else self.degree)[receivers])
        inputs = torch.cat([receivers + self.first, senders.long()])
        return _block(inputs, degree[receivers], position[row], place + len(receivers), scale)

    def everything(self) -> Block:
        """The block of all edges into the nodes of this part."""
        count = self.last - self.first
        senders, place = self.sender[self.crosses].unique(return_inverse=True)
        column = self.sender.long() - self.first
        column[self.crosses] = place + count
        own = torch.arange(self.first, self.last, device=column.device)
        return _block(torch.cat([own, senders.long()]), self.degree, self.row, column, _scale(self.degree))


def _block(inputs: Tensor, degree: Tensor, row: Tensor, column: Tensor, scale: Tensor) -> Block:
    """A block of edges by receiver: `degree` of each receiver `[n]`; row and column of each edge in `inputs`, `[e]`."""
    back = column.argsort(stable=True)
    t_ptr = pointers(torch.bincount(column, minlength=len(inputs)))
    col = column.int()
    parts = (pointers(degree), col, None, t_ptr, row[back].int(), col[:0], scale)
    operator = Operator((len(degree), len(inputs)), *parts)
    return Block(inputs, len(degree), (operator,), (None,), None, None)


def _scale(degree: Tensor) -> Tensor:
    return torch.where(degree > 0, 1 / degree.double(), 0.0)
