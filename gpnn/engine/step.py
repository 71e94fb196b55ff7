"""One step of a block: what the engine asks of a cell, and how a cell hears its messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gpnn.engine.block import Block
from gpnn.kernels import aggregate

OWN = -1  # the "edge type" of what a node hears of itself through the diagonal


class Step(NamedTuple):
    """Where in a schedule a cell is called.

    Attributes:
        round: number of the round, from 0.
        kind: kind of the phase.
        repeat: number of the repeat inside the phase, from 0.
        initial: the states before the first round, of the rows that update, `[n, d]`, where they were given.
        phase: number of the phase inside the round, from 0.
    """

    round: int
    kind: str
    repeat: int
    initial: Tensor | None = None
    phase: int = 0


class CellLike(Protocol):
    """What the engine asks of a cell (see :class:`gpnn.nn.Cell`)."""

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


class Speaker(Protocol):
    """The part of a cell that messages come from."""

    aggregate: str

    def emit(self, inputs: Tensor, edge_type: int) -> Tensor:
        """What nodes in these working states send along edges of this type, `[m, d]`."""


def hear(speaker: Speaker, block: Block, inputs: Tensor) -> Tensor:
    """The aggregated messages of the rows that `block` writes, `[n, d]`; a row without any hears zero."""
    if speaker.aggregate in ("max", "min"):
        return _hear_extreme(speaker, block, inputs)
    mean, total = speaker.aggregate == "mean", None
    for kind, operator in enumerate(block.operators_for(inputs.dtype) if mean else block.raw_operators):
        if operator.num_entries or kind == 0:
            heard = aggregate(operator, speaker.emit(inputs, kind))
            total = heard if total is None else total + heard
    assert total is not None
    if mean and block.diagonal is not None:
        own = speaker.emit(inputs[: block.num_rows], OWN)
        total = torch.addcmul(total, block.diagonal[:, None].to(total.dtype), own)
    return total


def _hear_extreme(speaker: Speaker, block: Block, inputs: Tensor) -> Tensor:
    """Max or min over all edge types."""
    how, worst = speaker.aggregate, -torch.inf if speaker.aggregate == "max" else torch.inf
    combine = torch.maximum if how == "max" else torch.minimum
    total = None
    for kind, operator in enumerate(block.raw_operators):
        if operator.num_entries or kind == 0:
            heard = aggregate(operator, speaker.emit(inputs, kind), how, fill=worst)
            total = heard if total is None else combine(total, heard)
    assert total is not None
    return torch.where(total == worst, 0.0, total)


def check_width(updated: Tensor, state: Tensor) -> None:
    """Raise ValueError unless the rows that a step writes are as wide as the state that they are written into."""
    if updated.shape[1] != state.shape[1]:
        raise ValueError(
            "Rows that a phase does not write keep their state, so a cell must give states as wide as it takes, "
            f"{state.shape[1]}. Got {updated.shape[1]}."
        )
