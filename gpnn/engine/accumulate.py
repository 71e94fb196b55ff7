"""accumulate_gradients: one exact pass forward and back over states of which few fit in memory at one time.

`propagate` with the streamed runner is a function that autograd differentiates: it must leave its input, its output and
their gradients alone. Here the caller gives them up: initial states are made anew when they are needed again, the final
state's memory is used by the backward pass, and the saved states leave the device one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from gpnn.engine.blockwise_backward import BlockwiseBackward
from gpnn.engine.plan import Plan
from gpnn.engine.recompute import Recomputation, round_steps
from gpnn.engine.saved_states import (
    PIECE_ROWS,
    FetchableState,
    HostRows,
    SavedState,
    StateStorage,
    copying,
    record_stream,
    wait,
)
from gpnn.engine.step import CellLike


class Source(FetchableState, Protocol):
    """Where the states before the first round come from, such as :class:`FeatureSource`."""

    def release(self) -> None:
        """Free their memory: they will not be needed before `fetch`."""

    def absorb(self, grad: Tensor) -> None:
        """Accept their gradient, `[N, s]`; the next pass begins after it."""


def accumulate_gradients(
    cell: CellLike,
    plan: Plan,
    source: Source,
    objective: Callable[[Tensor], Tensor],
    *,
    state: Tensor,
    saved: Sequence[StateStorage],
) -> Tensor:
    """Add the gradients of `objective` of the final states to those of all parameters; its value.

    Args:
        cell: how nodes send, aggregate and update; without initial residual and random numbers.
        plan: which messages travel when.
        source: the initial states, in plan order.
        objective: a scalar function of the final states in plan order, `[N, s]`; it may use parameters of its own.
        state: buffer for the states, `[N, s]`; overwritten.
        saved: where the states at the start of the second round and of each later one are stored, T − 1 of them.

    Raises:
        ValueError: when the cell needs what is not saved, or `saved` are not T − 1.
    """
    if cell.residual or cell.random:
        raise ValueError("The cell must have no initial residual and draw nothing at random.")
    if len(saved) != plan.num_rounds - 1:
        raise ValueError(f"`saved` must be one fewer than the {plan.num_rounds} rounds. Got {len(saved)}.")
    recomputation = Recomputation(cell, plan, None)
    with torch.no_grad():
        _forward(recomputation, source, state, saved)
    loss, grad = _differentiate(objective, state)
    with torch.no_grad():
        _backward(recomputation, [source, *saved], grad, state)
        source.absorb(grad)
    return loss


class _Chain:
    """A saved state; once its memory is free, the one before it is fetched into it."""

    def __init__(self, saved: SavedState, before: FetchableState | None, like: Tensor) -> None:
        self.saved, self.before, self.like = saved, before, like

    def load(self, into: Tensor) -> None:
        self.saved.load(into)

    def peek(self) -> Tensor | None:
        return self.saved.peek()

    def drop(self) -> None:
        self.saved.drop()
        if self.before is not None:
            self.before.fetch(self.like)


def _forward(recomputation: Recomputation, source: Source, state: Tensor, saved: Sequence[StateStorage]) -> None:
    source.load(state)
    source.release()
    for number, phases in enumerate(recomputation.rounds):
        if number:
            saved[number - 1].save(state)
        for phase, steps in round_steps(phases, number):
            recomputation.do_phase(phase, steps, state, None)


def _backward(recomputation: Recomputation, states: list[FetchableState], grad: Tensor, state: Tensor) -> None:
    """Turn the gradient of the final states into that of the initial ones; parameters' gradients are added."""
    parameters = tuple(p for p in recomputation.cell.parameters() if p.requires_grad)
    backward = BlockwiseBackward(recomputation, parameters, None, grad, state)
    for number in reversed(range(len(states))):
        backward.through_round(number, _Chain(states[number], states[number - 1] if number else None, state))
    for parameter, value in zip(parameters, backward.parameter_grads):
        if value is not None:
            parameter.grad = value if parameter.grad is None else parameter.grad + value


def _differentiate(objective: Callable[[Tensor], Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
    """The objective's value and its gradient of the states, `[N, s]`; its own parameters' gradients are added."""
    leaf = state.detach().requires_grad_()
    loss = objective(leaf)
    loss.backward()
    assert leaf.grad is not None
    return loss.detach(), leaf.grad


class FeatureSource:
    """h₀ = x W + b, for features x that stay in host memory, in plan order.

    Features are copied to the device once per pass, asynchronously, when the backward pass has freed memory: for the
    states that it begins from, for the gradient of W and for the beginning of the next pass. The first pass streams
    them through two buffers.

    Args:
        features: x, `[N, F]`.
        weight: W, `[F, d]`; its gradient is added to.
        bias: b, `[d]`; likewise.
        stream: the stream that copies, or None on a CPU.
    """

    def __init__(self, features: HostRows, weight: Tensor, bias: Tensor, stream: torch.cuda.Stream | None) -> None:
        self.features, self.weight, self.bias, self.stream = features, weight, bias, stream
        self._ahead: Tensor | None = None

    def fetch(self, like: Tensor) -> None:
        """Start copying all features to the device of `like`."""
        self._ahead = like.new_empty(self.features.shape, dtype=self.features.dtype)
        with copying(self.stream):
            self.features.read(self._ahead)

    @torch.no_grad()
    def load(self, into: Tensor) -> None:
        """Write the initial states into `into`, `[N, d]`."""
        weight, bias = self.weight.to(into.dtype), self.bias.to(into.dtype)
        if self._ahead is not None:
            wait(self.stream)
        for number in range(len(self.features.pieces)):
            rows = self.features.rows(number)
            x = self._piece(number, into) if self._ahead is None else self._ahead[rows]
            torch.addmm(bias, x.to(into.dtype), weight, out=into[rows])

    def peek(self) -> Tensor | None:
        """None: the states are made of the features."""
        return None

    def drop(self) -> None:
        """Nothing yet: the gradient of W still needs the features."""

    def release(self) -> None:
        """Free the features on the device."""
        self._ahead = None

    @torch.no_grad()
    def absorb(self, grad: Tensor) -> None:
        """Add to the gradients of W and b, given that of the initial states, `[N, d]`."""
        if self._ahead is None:
            self.fetch(grad)
        assert self._ahead is not None
        wait(self.stream)
        by_weight, by_bias = torch.zeros_like(self.weight), torch.zeros_like(self.bias)
        for number in range(len(self.features.pieces)):
            rows = self.features.rows(number)
            by_weight += _sum_products(self._ahead[rows].to(grad.dtype), grad[rows]).to(by_weight.dtype)
            by_bias += grad[rows].sum(0, dtype=by_bias.dtype)
        for parameter, value in ((self.weight, by_weight), (self.bias, by_bias)):
            parameter.grad = value if parameter.grad is None else parameter.grad + value

    def _piece(self, number: int, like: Tensor) -> Tensor:
        """The features of one piece, on the device of `like`; the next piece is on its way while this one is used."""
        if number == 0:
            shape = (min(PIECE_ROWS, self.features.shape[0]), self.features.shape[1])
            self._buffers = [like.new_empty(shape, dtype=self.features.dtype) for _ in range(2)]
            self._start(0)
        wait(self.stream)
        if number + 1 < len(self.features.pieces):
            self._start(number + 1)
        piece = self._buffers[number % 2][: len(self.features.pieces[number])]
        if number + 1 == len(self.features.pieces):
            for buffer in self._buffers:
                record_stream(buffer, self.stream)
            self._buffers = []
        return piece

    def _start(self, number: int) -> None:
        piece = self.features.pieces[number]
        with copying(self.stream):  # after the product that used this buffer last
            self._buffers[number % 2][: len(piece)].copy_(piece, non_blocking=True)


def _sum_products(a: Tensor, b: Tensor) -> Tensor:
    """aᵀ b, summed over the rows in float32 or better."""
    if a.is_cuda:
        from gpnn.kernels.gpu_gru import sum_products

        return sum_products(a, b)
    return a.T @ b
