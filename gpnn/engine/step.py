"""One step of a block: what the engine requires of a cell, and how a cell aggregates its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from gpnn.engine.block import Block
from gpnn.kernels import aggregate

OWN = -1  # the "edge type" of a node's message to itself, through the diagonal

MessageFunction: TypeAlias = Callable[[Tensor, int], Tensor]  # of states and an edge type


class Step(NamedTuple):
    """Where in a schedule a cell is called.

    Attributes:
        round: number of the round, from 0.
        kind: kind of the phase.
        repeat: number of the repeat inside the phase, from 0.
        initial: the states before the first round, of the rows that update, `[n, d]`, where they were given.
        phase: number of the phase inside the round, from 0.
        closing: whether the phase ends a round that an earlier one began; see :class:`gpnn.schedule.Phase`.
        synchronous: whether the round is this step alone, over all edges: the next step then keeps all its result.
    """

    round: int
    kind: str
    repeat: int
    initial: Tensor | None = None
    phase: int = 0
    closing: bool = False
    synchronous: bool = False


class CellLike(Protocol):
    """What the engine requires of a cell (see :class:`gpnn.nn.Cell`)."""

    @property
    def residual(self) -> bool:
        """Whether steps need `Step.initial`."""

    @property
    def local(self) -> bool:
        """Whether a row's next state follows from the states of the row and its senders alone.

        Then a phase may be cut into chunks of receivers. A convolution that reads the degree of a sender is not local.
        """

    @property
    def random(self) -> bool:
        """Whether `advance` draws from torch's global generator, so that recomputing it must repeat the draws."""

    def parameters(self) -> Iterator[Tensor]:
        """The tensors besides the states that gradients flow to."""

    def start(self, state: Tensor) -> Tensor:
        """The working state, `[N, s]`, of nodes whose visible state is `state`, `[N, d]`."""

    def finish(self, working: Tensor) -> Tensor:
        """The visible state, `[N, d]`, of a working state."""

    def advance(self, block: Block, inputs: Tensor, step: Step) -> Tensor:
        """The next working state of the rows that `block` writes, `[n, s]`, from that of its inputs, `[m, s]`."""


def aggregate_messages(block: Block, states: Tensor, message: MessageFunction, how: str) -> Tensor:
    """The aggregated messages of the rows that `block` writes, `[n, d]`; zero where a row receives none.

    Args:
        block: the adjacency of each edge type.
        states: the visible states of the block's inputs, `[m, d]`.
        message: what nodes in these states send along edges of a type, `[m, d]`.
        how: "mean" (with the plan's normalised weights), "sum", "max" or "min".
    """
    if how in ("max", "min"):
        return _aggregate_extreme(block, states, message, how)
    mean, total = how == "mean", None
    for kind, operator in enumerate(block.operators_for(states.dtype) if mean else block.raw_operators):
        if operator.num_entries or kind == 0:
            received = aggregate(operator, message(states, kind))
            total = received if total is None else total + received
    assert total is not None
    if mean and block.diagonal is not None:
        own = message(states[: block.num_rows], OWN)
        total = torch.addcmul(total, block.diagonal[:, None].to(total.dtype), own)
    return total


def _aggregate_extreme(block: Block, states: Tensor, message: MessageFunction, how: str) -> Tensor:
    """Max or min over all edge types."""
    worst = -torch.inf if how == "max" else torch.inf
    combine = torch.maximum if how == "max" else torch.minimum
    total = None
    for kind, operator in enumerate(block.raw_operators):
        if operator.num_entries or kind == 0:
            received = aggregate(operator, message(states, kind), how, fill=worst)
            total = received if total is None else combine(total, received)
    assert total is not None
    return torch.where(total == worst, 0.0, total)


def check_width(updated: Tensor, state: Tensor) -> None:
    """Raise ValueError unless the rows that a step writes are as wide as the state that they are written into."""
    if updated.shape[1] != state.shape[1]:
        raise ValueError(
            "Rows that a phase does not write keep their state, so a cell must give states as wide as it takes, "
            f"{state.shape[1]}. Got {updated.shape[1]}."
        )
