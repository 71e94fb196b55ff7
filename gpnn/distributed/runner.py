"""The sharded runner: phases inside subgraphs move nothing, others exchange the rows that they read elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

from gpnn.distributed.halo_exchange import HaloExchange, anchor
from gpnn.distributed.plan import ShardedPhase, ShardedPlan
from gpnn.distributed.process_group import Traffic
from gpnn.engine.block import Block
from gpnn.engine.recompute import Recomputation, own_rows, round_steps
from gpnn.engine.rows import update_rows
from gpnn.engine.step import CellLike, Step, check_width
from gpnn.kernels.autograd import first_order, is_plain
from gpnn.kernels.gated import storing_gates

if TYPE_CHECKING:
    from gpnn.nn.cell import Cell, CellBank


@dataclass(frozen=True)
class Sharded:
    """The runner of several processes.

    Attributes:
        recompute: keep what enters a phase and compute its inside again in the backward pass: all repeats of a phase
            that exchanges nothing or whose messages are held, one step of others. Nothing is exchanged again. It takes
            a third longer, and the states inside subgraphs are not kept; else gated steps inside them keep their gates.
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
                run = _Run(Recomputation(cell, plan, None), cast(ShardedPhase, phase), initial, self.recompute)
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
        together = self._takes_together(steps, state)
        if not self.lowered.exchanges_steps:  # built on first use by all processes, also by those without rows
            _ = self.lowered.blocks if together else self.lowered.whole
        if exchange is None:
            if not self.lowered.num_rows:
                return state
            if together:
                return self._replace(state, self._together(steps, state))
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
        """All repeats after one exchange: messages from other processes are held.

        During it the first step's products of own states are made, which wait for no message; in the backward pass
        theirs are made while the gradients of the received rows travel.
        """
        pending = exchange.start(state)
        together, begun = self._takes_together(steps, state), None
        if together and self.lowered.replaces_all and not self.recompute:
            begun = cast("Cell | CellBank", self.computation.cell).begin_blocks(state, steps[0])
        received = pending.wait()
        if not self.lowered.num_rows:
            return anchor(state, received)
        if together:
            return self._replace(state, self._together(steps, torch.cat([state, received]), begun))
        inputs = self.lowered.read_held(state, received)
        return self._replace(state, self._keep_inputs(partial(self._advance, self.lowered.whole, steps), inputs))

    def _takes_together(self, steps: list[Step], state: Tensor) -> bool:
        """Whether a kernel takes all repeats of each subgraph in one go; the same in all processes."""
        plan, cell = self.computation.plan, self.computation.cell
        if len(steps) == 1 or not self.lowered.blockwise or plan.num_edge_types > 1 or plan.device.type != "cpu":
            return False
        if is_plain() or torch.is_autocast_enabled("cpu") or not getattr(cell, "takes_blocks", False):
            return False
        return state.dtype == next(cell.parameters()).dtype

    def _together(self, steps: list[Step], read: Tensor, begun: Tensor | None = None) -> Tensor:
        """The rows after all repeats, `[n, s]`, subgraph by subgraph, from own rows and those that were received."""
        cell = cast("Cell | CellBank", self.computation.cell)
        with nullcontext() if self.recompute else storing_gates():
            return cell.advance_blocks(self.lowered.blocks, self.lowered.places, read, steps, begun)

    def _replace(self, state: Tensor, updated: Tensor) -> Tensor:
        """The state with the rows that the phase writes."""
        return updated if self.lowered.replaces_all else _write(self.lowered, state, updated)

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
