"""HaloExchange: state rows that a phase reads and other processes own, sent once per repeat; gradients sent back.

Both directions are one asynchronous all-to-all, during which rows that need none of the received ones are updated:
`start` begins it, `wait` ends it. In the backward pass the gradients of the received rows are sent in the backward of
`wait`, and waited for in that of `start`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

from gpnn.distributed.process_group import ProcessGroup, Traffic
from gpnn.engine.block import Block
from gpnn.engine.recompute import Recomputation, own_rows, round_steps
from gpnn.engine.rows import update_rows
from gpnn.engine.step import CellLike, Step, check_width
from gpnn.kernels.autograd import first_order

if TYPE_CHECKING:
    from gpnn.distributed.plan import ShardedPhase, ShardedPlan


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


@dataclass(frozen=True)
class Sharded:
    """The runner of several processes.

    Attributes:
        recompute: keep what enters a phase and compute its inside again in the backward pass: all repeats of a phase
            that exchanges nothing or whose messages are held, one step of others. Nothing is exchanged again. It takes
            a third longer, and the states inside subgraphs are not kept.
    """

    recompute: bool = False

    def __call__(
        self, cell: CellLike, plan: ShardedPlan, state: Tensor, *, initial: Tensor | None, collect: bool
    ) -> list[Tensor]:
        """The working state of the own rows after each round, or after the last one only, `[n, s]`.

        All processes call it together, and together differentiate its result. Within a step halo rows are
        exchanged while interior rows are updated; in the backward pass their gradients are exchanged likewise.

        Raises:
            ValueError: for a cell that reads more of its senders than their states.
        """
        if not cell.local:
            raise ValueError(
                "A cell under several processes must follow from the states of a node and its senders alone "
                "(`local`); a convolution that reads the degrees of senders does not."
            )
        state = _count_synchronous(plan, state)
        states = []
        for number, phases in enumerate(plan.rounds):
            for phase, steps in round_steps(phases, number):
                run = _Run(Recomputation(cell, plan, None), cast("ShardedPhase", phase), initial, self.recompute)
                state = run.phase(steps, state)
            states.append(state)
        return states if collect else states[-1:]


@dataclass(frozen=True, eq=False)
class _Run:
    """One phase of one pass."""

    computation: Recomputation
    lowered: ShardedPhase
    initial: Tensor | None
    recompute: bool

    def phase(self, steps: list[Step], state: Tensor) -> Tensor:
        """The state after all repeats."""
        exchange = self.lowered.exchange
        if exchange is None:
            if not self.lowered.num_rows:
                return state
            return self._keep_inputs(lambda before: self._inside(steps, before), state)
        if not self.lowered.exchanges_steps:
            return self._held(exchange, steps, state)
        for step in steps:
            state = self._exchanging(exchange, step, state)
        return state

    def _inside(self, steps: list[Step], state: Tensor) -> Tensor:
        """All repeats of a phase that reads own rows only."""
        block = self.lowered.whole
        return update_rows(state, block, partial(self._advance, block, steps))

    def _held(self, exchange: HaloExchange, steps: list[Step], state: Tensor) -> Tensor:
        """All repeats after one exchange: messages from other processes are held."""
        received, block = exchange.start(state).wait(), self.lowered.whole
        if not block.num_rows:
            return anchor(state, received)
        inputs = self.lowered.read_held(state, received)
        updated = self._keep_inputs(partial(self._advance, block, steps), inputs)
        return updated if block.num_rows == len(state) else _write(self.lowered, state, updated)

    def _exchanging(self, exchange: HaloExchange, step: Step, state: Tensor) -> Tensor:
        """One repeat: during the exchange interior rows are updated, after it boundary rows."""
        pending = exchange.start(state)
        interior, boundary = self.lowered.interior_and_boundary
        parts = []
        if interior.num_rows:
            parts.append(self._keep_inputs(partial(self._advance, interior, [step]), interior.read(state)))
        received = pending.wait()
        if boundary.num_rows:
            inputs = self.lowered.read(state, received)
            parts.append(self._keep_inputs(partial(self._advance, boundary, [step]), inputs))
        else:
            state = anchor(state, received)
        return _write(self.lowered, state, torch.cat(parts)) if parts else state

    def _advance(self, block: Block, steps: list[Step], inputs: Tensor) -> Tensor:
        return self.computation.advance(block, 0, inputs, steps, own_rows(self.initial, block))

    def _keep_inputs(self, function: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
        """`function(inputs)`, of which the backward pass keeps the inputs alone where that is asked for."""
        if not (self.recompute and torch.is_grad_enabled()):
            return function(inputs)
        return checkpoint(function, inputs, use_reentrant=False)


def _write(phase: ShardedPhase, state: Tensor, updated: Tensor) -> Tensor:
    check_width(updated, state)
    return state.index_copy(0, phase.row_index, updated)


class _CountSynchronous(Function):
    """Identity that counts what synchronous propagation would have sent, forward and backward."""

    @staticmethod
    def forward(ctx: Any, state: Tensor, traffic: Traffic, there: int, back: int) -> Tensor:
        ctx.traffic, ctx.back = traffic, back
        traffic.synchronous += there
        return state.view_as(state)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        ctx.traffic.synchronous += ctx.back
        return grad, None, None, None


def _count_synchronous(plan: ShardedPlan, state: Tensor) -> Tensor:
    """`state`, counted: every step of synchronous propagation sends all rows that any edge takes elsewhere."""
    if plan.halo is None:
        return state
    size = plan.schedule.num_steps * state.shape[1] * state.element_size()
    there, back = size * len(plan.halo.send_rows), size * plan.halo.num_received
    return _CountSynchronous.apply(state, plan.group.traffic, there, back)
