"""accumulate_gradients: one exact pass forward and back over states of which few fit in memory at one time.

`propagate` with the streamed runner is a function that autograd differentiates: it must leave its input, its output and
their gradients alone. Here the caller gives them up: initial states are made anew when they are needed again, the final
state's memory is used for the way back, and the kept states leave the device one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from gpnn.engine.boundary import Kept
from gpnn.engine.plan import Plan
from gpnn.engine.replay import Replay, phase_steps
from gpnn.engine.step import CellLike
from gpnn.engine.sweep import Sweep


class Later(Kept, Protocol):
    """A state that is not at hand and can be sent for."""

    def fetch(self, like: Tensor) -> None:
        """Start bringing what `load` needs to the device of `like`."""


class Source(Later, Protocol):
    """Where the states before the first round come from; see :class:`gpnn.engine.feature_source.FeatureSource`."""

    def release(self) -> None:
        """Make room: they will not be needed before `fetch`."""

    def absorb(self, grad: Tensor) -> None:
        """Take their gradient, `[N, s]`; the next pass begins after it."""


class Keeper(Later, Protocol):
    """A place for the state at the start of a round: here (:class:`DeviceState`) or on the host (`HostState`)."""

    def keep(self, state: Tensor) -> None:
        """Keep a copy of `state`, `[N, s]`."""


def accumulate_gradients(
    cell: CellLike,
    plan: Plan,
    source: Source,
    objective: Callable[[Tensor], Tensor],
    *,
    state: Tensor,
    keepers: Sequence[Keeper],
) -> Tensor:
    """Add the gradients of `objective` of the final states to those of all parameters; its value.

    Args:
        cell: how nodes send, aggregate and update; without initial residual and random draws.
        plan: which messages travel when.
        source: the initial states, in plan order.
        objective: a scalar function of the final states in plan order, `[N, s]`; it may use parameters of its own.
        state: room for the states, `[N, s]`; overwritten.
        keepers: where the states at the start of the second round and of each later one are kept, T − 1 of them.

    Raises:
        ValueError: when the cell needs what is not kept, or the keepers are not T − 1.
    """
    if cell.residual or cell.random:
        raise ValueError("The cell must have no initial residual and draw nothing at random.")
    if len(keepers) != plan.num_rounds - 1:
        raise ValueError(f"`keepers` must be one fewer than the {plan.num_rounds} rounds. Got {len(keepers)}.")
    replay = Replay(cell, plan, None)
    with torch.no_grad():
        _forward(replay, source, state, keepers)
    loss, grad = _differentiate(objective, state)
    with torch.no_grad():
        _backward(replay, [source, *keepers], grad, state)
        source.absorb(grad)
    return loss


class DeviceState:
    """A kept state on the computation's own device, given up after its last use.

    Args:
        dtype: the type that it is kept in, or None: its own.
    """

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        self.dtype = dtype
        self._stored: Tensor | None = None

    def keep(self, state: Tensor) -> None:
        self._stored = state.to(self.dtype or state.dtype, copy=True)

    def fetch(self, like: Tensor) -> None:
        """Nothing: it is here."""

    def load(self, into: Tensor) -> None:
        assert self._stored is not None
        into.copy_(self._stored)

    def drop(self) -> None:
        self._stored = None


class _Chain:
    """A kept state whose memory, once it is given up, is where the one before it comes back to."""

    def __init__(self, kept: Kept, before: Later | None, like: Tensor) -> None:
        self.kept, self.before, self.like = kept, before, like

    def load(self, into: Tensor) -> None:
        self.kept.load(into)

    def drop(self) -> None:
        self.kept.drop()
        if self.before is not None:
            self.before.fetch(self.like)


def _forward(replay: Replay, source: Source, state: Tensor, keepers: Sequence[Keeper]) -> None:
    source.load(state)
    source.release()
    for number, phases in enumerate(replay.rounds):
        if number:
            keepers[number - 1].keep(state)
        for position, phase in enumerate(phases):
            replay.do_phase(phase, phase_steps(phase, number, position), state, None)


def _backward(replay: Replay, kept: list[Later], grad: Tensor, state: Tensor) -> None:
    """Turn the gradient of the final states into that of the initial ones; parameters' gradients are added."""
    parameters = tuple(p for p in replay.cell.parameters() if p.requires_grad)
    sweep = Sweep(replay, parameters, None, grad, state)
    for number in reversed(range(len(kept))):
        sweep.through_round(number, _Chain(kept[number], kept[number - 1] if number else None, state))
    for parameter, value in zip(parameters, sweep.parameter_grads):
        if value is not None:
            parameter.grad = value if parameter.grad is None else parameter.grad + value


def _differentiate(objective: Callable[[Tensor], Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
    """The objective's value and its gradient of the states, `[N, s]`; its own parameters' gradients are added."""
    leaf = state.detach().requires_grad_()
    loss = objective(leaf)
    loss.backward()
    assert leaf.grad is not None
    return loss.detach(), leaf.grad
