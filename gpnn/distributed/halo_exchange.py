"""HaloExchange: state rows that a phase reads and other processes own, sent once per repeat; gradients sent back.

Both directions are one asynchronous all-to-all, during which rows that need none of the received ones are updated:
`start` begins it, `wait` ends it. In the backward pass the gradients of the received rows are sent in the backward of
`wait`, and waited for in that of `start`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from gpnn.distributed.process_group import ProcessGroup
from gpnn.kernels.autograd import first_order


@dataclass(frozen=True, eq=False)
class HaloExchange:
    """Which rows each rank sends to which before each repeat of a phase.

    Attributes:
        group: the processes.
        send_rows: own rows that others read, grouped by reader, `[s]`.
        send_counts: how many go to each rank.
        receive_counts: how many come from each rank; they come in the order of rank, then of position.
    """

    group: ProcessGroup
    send_rows: Tensor
    send_counts: list[int]
    receive_counts: list[int]

    @property
    def num_received(self) -> int:
        return sum(self.receive_counts)

    def values(self, own: Tensor) -> Tensor:
        """The owners' values of each received row, `[r, …]`, given this process's `own`, without gradients."""
        rows = own.index_select(0, self.send_rows.to(own.device))
        return self.group.all_to_all(rows, self.send_counts, self.receive_counts)

    def start(self, state: Tensor) -> PendingExchange:
        """Begin to send rows of `state`, `[n, s]`; `wait` on the result returns the received ones."""
        pending = PendingExchange(self)
        pending.buffer = _Start.apply(pending, state.index_select(0, self.send_rows))
        return pending


class PendingExchange:
    """An exchange between `start` and `wait`; it holds the buffers that must live until then."""

    def __init__(self, exchange: HaloExchange) -> None:
        self.exchange = exchange
        self.buffer: Tensor | None = None
        self.sent: Tensor | None = None
        self.returned: Tensor | None = None
        self.work: dist.Work | None = None

    def wait(self) -> Tensor:
        """The received rows, `[r, s]`."""
        return _Wait.apply(self, self.buffer)

    def _start_transfer(self, rows: Tensor, send: list[int], receive: list[int]) -> Tensor:
        """Start an all-to-all; the buffer that will hold the received rows."""
        self.sent = rows
        buffer, self.work = self.exchange.group.start_all_to_all(rows, send, receive)
        return buffer

    def _finish_transfer(self) -> None:
        assert self.work is not None
        self.work.wait()
        self.work = self.sent = None


class _Start(Function):
    @staticmethod
    def forward(ctx: Any, pending: PendingExchange, rows: Tensor) -> Tensor:
        ctx.pending, exchange = pending, pending.exchange
        return pending._start_transfer(rows.contiguous(), exchange.send_counts, exchange.receive_counts)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None]:
        del grad  # its values were sent in the backward of `_Wait`
        pending: PendingExchange = ctx.pending
        pending._finish_transfer()
        returned, pending.returned = pending.returned, None
        return None, returned


class _Wait(Function):
    @staticmethod
    def forward(ctx: Any, pending: PendingExchange, buffer: Tensor) -> Tensor:
        ctx.pending = pending
        pending._finish_transfer()
        pending.buffer = None
        ctx.mark_dirty(buffer)
        return buffer

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        pending: PendingExchange = ctx.pending
        exchange = pending.exchange
        send, receive = exchange.receive_counts, exchange.send_counts
        pending.returned = pending._start_transfer(grad.contiguous(), send, receive)
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


def build_exchange(
    needed: Tensor, bounds: Tensor, group: ProcessGroup, device: torch.device | str = "cpu"
) -> HaloExchange | None:
    """The exchange that brings the rows at the positions `needed` here; None where no process needs any; collective.

    Every rank sends every other the positions of the rows that it needs, in one all-to-all.

    Args:
        needed: positions of rows that others own, rising, int64, `[r]`.
        bounds: rank r owns the positions `bounds[r]` to `bounds[r + 1]`, `[R + 1]`.
        group: the processes.
        device: where states live.
    """
    ends = torch.searchsorted(needed, bounds)
    receive_counts = ends.diff().tolist()
    ones = [1] * group.size
    send_counts = group.all_to_all(ends.diff(), ones, ones).tolist()
    requested = group.all_to_all(needed, receive_counts, send_counts)
    if not int(group.all_reduce(torch.tensor(needed.numel()))):
        return None
    send_rows = (requested - bounds[group.rank]).to(device)
    return HaloExchange(group, send_rows, send_counts, receive_counts)
