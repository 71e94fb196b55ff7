"""Gates: the arithmetic of a gated recurrent unit on one chunk of rows, in buffers that stay in a core's cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.kernels.cpu import as_array
from gpnn.kernels.gates_kernel import differentiate_rows, update_rows

CHUNK_ROWS, CHUNK_BYTES = 2048, 1 << 20  # at most, of the buffer of four gates, which a core's cache has room for


class GateWeights(NamedTuple):
    """The parameters of :func:`torch.gru_cell` laid out for products that write all four parts of the gates.

    Attributes:
        candidate_by_message: from the message to the part n, `[d, d]`.
        gates_by_message: from the message to the parts r, z, `[d, 2d]`.
        by_state: from the state to the parts r, z, n, `[d, 3d]`.
        to_message: back from the parts n, r, z to the message, `[3d, d]`.
        to_state: the transpose of `by_state`, `[3d, d]`.
        bias: of the parts n (message), r, z, n (state), `[4d]`.
    """

    candidate_by_message: Tensor
    gates_by_message: Tensor
    by_state: Tensor
    to_message: Tensor
    to_state: Tensor
    bias: Tensor

    @classmethod
    def of(cls, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor) -> GateWeights:
        width = weight_ih.shape[1]
        to_message = weight_ih.detach().roll(width, 0)  # r, z, n become n, r, z
        to_state = weight_hh.detach().contiguous()
        b = bias_ih.detach().roll(width)
        bias = torch.cat([b[:width], b[width:] + bias_hh.detach()[: 2 * width], bias_hh.detach()[2 * width :]])
        candidate, gates, by_state = (w.T.contiguous() for w in (to_message[:width], to_message[width:], to_state))
        return cls(candidate, gates, by_state, to_message, to_state, bias)


class GateGradients(NamedTuple):
    """Gradients of :class:`GateWeights` from some of the rows: of `to_message`, `to_state` and `bias`."""

    to_message: Tensor
    to_state: Tensor
    bias: Tensor

    def as_parameters(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradients of weight_ih, weight_hh, bias_ih and bias_hh."""
        width = self.to_state.shape[1]
        bias_ih, bias_hh = self.bias[: 3 * width].roll(-width), self.bias[width:].clone()
        return self.to_message.roll(-width, 0), self.to_state, bias_ih, bias_hh


class Gates:
    """The buffers of one thread.

    Args:
        weights: the parameters.
        dtype: of the states; bfloat16 states are widened to the parameters' type a chunk at a time.
        rows: the most rows of a chunk.
    """

    def __init__(self, weights: GateWeights, dtype: torch.dtype, rows: int) -> None:
        self.weights, self.width, like = weights, weights.by_state.shape[0], weights.bias
        self.gates = like.new_empty(rows, 4 * self.width)
        narrow = dtype != like.dtype
        self.wide = [like.new_empty(rows, self.width) for _ in range(3)] if narrow else None

    def update(self, messages: Tensor, state: Tensor, out: Tensor) -> None:
        """Put the next states of rows in `state` that received `messages` into `out`, each `[c, d]`."""
        gates = self._sum(*self._widen(messages, state), candidate=True)
        update_rows(gates.numpy(), self.weights.bias.numpy(), as_array(state), as_array(out))

    def differentiate(
        self, messages: Tensor, state: Tensor, out: Tensor, grad: Tensor, *, grad_state: Tensor, totals: GateGradients
    ) -> None:
        """Replace `messages` by their gradient, fill `grad_state`, each `[c, d]`, and add to the parameters' totals.

        `out` holds what :meth:`update` gave, as wide as the parameters, or no rows: the candidate is then made again.
        """
        received, own = self._widen(messages, state)
        gates = self._sum(received, own, candidate=not len(out))
        passed = grad_state if self.wide is None else self.wide[2][: len(state)]
        arrays = (as_array(state), as_array(out), as_array(grad), passed.numpy(), totals.bias.numpy())
        differentiate_rows(gates.numpy(), self.weights.bias.numpy(), *arrays)
        by_message, by_state = gates[:, : 3 * self.width], gates[:, self.width :]
        totals.to_message.addmm_(by_message.T, received)
        totals.to_state.addmm_(by_state.T, own)
        passed.addmm_(by_state, self.weights.to_state)
        torch.mm(by_message, self.weights.to_message, out=received)
        if self.wide is not None:
            messages.copy_(received)
            grad_state.copy_(passed)

    def totals(self) -> GateGradients:
        """Gradients of the parameters before any row."""
        weights = self.weights
        return GateGradients(*(torch.zeros_like(each) for each in (weights.to_message, weights.to_state, weights.bias)))

    def _sum(self, messages: Tensor, state: Tensor, *, candidate: bool) -> Tensor:
        """The four parts of the gates, biases aside, `[c, 4d]`; the message's share of the candidate on request."""
        gates, width = self.gates[: len(state)], self.width
        torch.mm(state, self.weights.by_state, out=gates[:, width:])
        gates[:, width : 3 * width].addmm_(messages, self.weights.gates_by_message)
        if candidate:
            torch.mm(messages, self.weights.candidate_by_message, out=gates[:, :width])
        return gates

    def _widen(self, messages: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if self.wide is None:
            return messages, state
        received, own = self.wide[0][: len(state)], self.wide[1][: len(state)]
        return received.copy_(messages), own.copy_(state)


def chunk_rows(weights: GateWeights) -> int:
    """Rows a chunk."""
    return max(64, min(CHUNK_ROWS, CHUNK_BYTES // (weights.bias.numel() * weights.bias.element_size())))


def chunks(start: int, stop: int, rows: int) -> Iterator[slice]:
    """Slices of at most `rows` rows from `start` up to `stop`."""
    return (slice(first, min(first + rows, stop)) for first in range(start, stop, rows))


def add_up(parts: list[GateGradients]) -> GateGradients:
    """The sum over runs of rows, in their order."""
    first, *others = parts
    for part in others:
        for total, value in zip(first, part):
            total += value
    return first
