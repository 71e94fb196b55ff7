"""Exchange: state rows that a phase reads and other processes own, sent once a repeat, gradients sent back.

Both ways are one all-to-all that travels while rows that need nothing of it are updated: `depart` starts it, `arrive`
waits for it. In the backward pass the gradients of the received rows leave in the backward of `arrive`, and are waited
for in that of `depart`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from gpnn.engine.sharded.peers import Peers
from gpnn.kernels.first_order import first_order


@dataclass(frozen=True, eq=False)
class Exchange:
    """Who sends which rows to whom before each repeat of a phase.

    Attributes:
        peers: the processes.
        send_rows: own rows that others read, grouped by reader, `[s]`.
        send_counts: how many go to each rank.
        receive_counts: how many come from each rank; they come in the order of rank, then of position.
    """

    peers: Peers
    send_rows: Tensor
    send_counts: list[int]
    receive_counts: list[int]

    @property
    def num_received(self) -> int:
        return sum(self.receive_counts)

    def values(self, own: Tensor) -> Tensor:
        """What the owners hold of each received row, `[r, …]`, given this process's `own`, without gradients."""
        rows = own.index_select(0, self.send_rows.to(own.device))
        return self.peers.swap(rows, self.send_counts, self.receive_counts)

    def depart(self, state: Tensor) -> Flight:
        """Send the rows of `state`, `[n, s]`, on their way."""
        flight = Flight(self)
        flight.room = _Depart.apply(flight, state.index_select(0, self.send_rows))
        return flight


class Flight:
    """Rows that are on their way; it holds what must live until they have landed."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.room: Tensor | None = None
        self.sent: Tensor | None = None
        self.returned: Tensor | None = None
        self.work: dist.Work | None = None

    def arrive(self) -> Tensor:
        """The received rows, `[r, s]`."""
        return _Arrive.apply(self, self.room)

    def start(self, rows: Tensor, send: list[int], receive: list[int]) -> Tensor:
        """Start an all-to-all; the room that will hold what comes."""
        self.sent = rows
        room, self.work = self.exchange.peers.start_swap(rows, send, receive)
        return room

    def wait(self) -> None:
        assert self.work is not None
        self.work.wait()
        self.work = self.sent = None


class _Depart(Function):
    @staticmethod
    def forward(ctx: Any, flight: Flight, rows: Tensor) -> Tensor:
        ctx.flight = flight
        return flight.start(rows.contiguous(), flight.exchange.send_counts, flight.exchange.receive_counts)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None]:
        del grad  # its values left in the backward of `_Arrive`
        flight: Flight = ctx.flight
        flight.wait()
        returned, flight.returned = flight.returned, None
        return None, returned


class _Arrive(Function):
    @staticmethod
    def forward(ctx: Any, flight: Flight, room: Tensor) -> Tensor:
        ctx.flight = flight
        flight.wait()
        flight.room = None
        ctx.mark_dirty(room)
        return room

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        flight: Flight = ctx.flight
        exchange = flight.exchange
        flight.returned = flight.start(grad.contiguous(), exchange.receive_counts, exchange.send_counts)
        return None, grad


class _Anchor(Function):
    @staticmethod
    def forward(ctx: Any, state: Tensor, received: Tensor) -> Tensor:
        ctx.shape = received.shape
        return state.view_as(state)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, grad.new_zeros(ctx.shape)


def anchor(state: Tensor, received: Tensor) -> Tensor:
    """`state`, which now also depends on `received`, with gradient zero.

    A process that reads none of the rows of a phase must still take part in sending their gradients back.
    """
    return _Anchor.apply(state, received)


def negotiate(needed: Tensor, bounds: Tensor, peers: Peers, device: torch.device | str = "cpu") -> Exchange | None:
    """The exchange by which this process gets the rows at the positions `needed`; None where nobody needs any.

    It is collective: everyone tells everyone which of their rows it needs, in one all-to-all of positions.

    Args:
        needed: positions of rows that others own, rising, int64, `[r]`.
        bounds: rank r owns the positions `bounds[r]` to `bounds[r + 1]`, `[R + 1]`.
        peers: the processes.
        device: where states live.
    """
    ends = torch.searchsorted(needed, bounds)
    receive_counts = ends.diff().tolist()
    ones = [1] * peers.size
    send_counts = peers.swap(ends.diff(), ones, ones).tolist()
    wanted = peers.swap(needed, receive_counts, send_counts)
    if not int(peers.total(torch.tensor(needed.numel()))):
        return None
    send_rows = (wanted - bounds[peers.rank]).to(device)
    return Exchange(peers, send_rows, send_counts, receive_counts)
