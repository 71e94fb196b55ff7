"""The sharded runner: phases inside subgraphs move nothing, others exchange the rows that they read elsewhere."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from gpnn.engine.sharded.exchange import anchor
from gpnn.engine.sharded.peers import Traffic
from gpnn.engine.sharded.phase import ShardedPhase
from gpnn.engine.sharded.plan import ShardedPlan
from gpnn.engine.step import CellLike, Step, check_width


def sharded(cell: CellLike, plan: ShardedPlan, state: Tensor, *, initial: Tensor | None, collect: bool) -> list[Tensor]:
    """The working state of the own rows after each round, or after the last one only, `[n, s]`.

    All processes call it together, and together differentiate its result. Within a step the rows travel while those
    that hear own rows only are updated; in the backward pass their gradients travel likewise.

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
        for position, phase in enumerate(phases):
            for repeat in range(phase.repeat):
                step = Step(number, phase.kind, repeat, phase=position)
                state = _step(cell, cast(ShardedPhase, phase), state, step, initial)
        states.append(state)
    return states if collect else states[-1:]


def _step(cell: CellLike, phase: ShardedPhase, state: Tensor, step: Step, initial: Tensor | None) -> Tensor:
    if phase.exchange is None:
        if not phase.num_rows:
            return state
        block = phase.whole
        updated = _advance(cell, block, block.read(state), step, initial)
        if isinstance(block.inputs, slice) and block.num_rows == state.shape[0]:
            return updated
        return _write(phase, state, updated)
    flight = phase.exchange.depart(state)
    interior, boundary = phase.halves
    parts = [_advance(cell, interior, interior.read(state), step, initial)] if interior.num_rows else []
    received = flight.arrive()
    if boundary.num_rows:
        parts.append(_advance(cell, boundary, phase.read(state, received), step, initial))
    else:
        state = anchor(state, received)
    return _write(phase, state, torch.cat(parts)) if parts else state


def _advance(cell: CellLike, block: Any, inputs: Tensor, step: Step, initial: Tensor | None) -> Tensor:
    if initial is not None:
        step = step._replace(initial=initial[block.rows])
    return cell.advance(block, inputs, step)


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
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        ctx.traffic.synchronous += ctx.back
        return grad, None, None, None


def _count_synchronous(plan: ShardedPlan, state: Tensor) -> Tensor:
    """`state`, counted: every step of synchronous propagation sends all rows that any edge takes elsewhere."""
    if plan.halo is None:
        return state
    size = plan.schedule.num_steps * state.shape[1] * state.element_size()
    there, back = size * len(plan.halo.send_rows), size * plan.halo.num_received
    return _CountSynchronous.apply(state, plan.peers.traffic, there, back)
