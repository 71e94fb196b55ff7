"""Gates: the arithmetic of a gated recurrent unit on one chunk of rows, in buffers that stay in a core's cache.

Matrix products are torch's; the elementwise part is compiled, one pass over the chunk. A row of `gates` holds four
parts of width d: the message's share of the candidate, the reset and the update gate's sums, and the state's share of
the candidate: [W_n m | W_r m + U_r h | W_z m + U_z h | U_n h], biases aside.
"""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import float32, njit, types
from numba.extending import overload
from torch import Tensor

from gpnn.kernels.cpu import as_array
from gpnn.kernels.simd import narrow, widen

FAST = {"contract", "nsz", "arcp"}  # products and sums may fuse; not-a-number and infinity keep their meaning
CHUNK_ROWS, CHUNK_BYTES = 2048, 1 << 20  # at most, of the buffer of four gates, which fits a core's cache


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


_buffers = threading.local()  # of each thread, so that memory that is in its cache serves its next piece of work too


def thread_buffer(use: str, size: int, like: Tensor) -> Tensor:
    """So many numbers of memory, `[size]`, that the thread uses again the next time that it asks for this use."""
    kept: dict[Any, Tensor] = _buffers.__dict__
    if (use, like.dtype) not in kept or kept[use, like.dtype].numel() < size:
        with torch.inference_mode(False):  # it outlives the caller's
            kept[use, like.dtype] = torch.empty(size, dtype=like.dtype)
    return kept[use, like.dtype][:size]


class Gates:
    """The buffers of one thread, which has one such object at a time.

    Args:
        weights: the parameters.
        dtype: of the states; bfloat16 states are widened to the parameters' type a chunk at a time.
        rows: the most rows of a chunk.
    """

    def __init__(self, weights: GateWeights, dtype: torch.dtype, rows: int) -> None:
        self.weights, self.width, like = weights, weights.by_state.shape[0], weights.bias
        self.gates = thread_buffer("gates", rows * 4 * self.width, like).view(rows, 4 * self.width)
        narrow = dtype != like.dtype
        self.wide = [like.new_empty(rows, self.width) for _ in range(3)] if narrow else None

    def update(self, messages: Tensor, state: Tensor, out: Tensor) -> None:
        """Put the next states of rows in `state` that received `messages` into `out`, each `[c, d]`."""
        gates = self.gates[: len(state)]
        self.sum(*self._widen(messages, state), gates)
        update_rows(gates.numpy(), self.weights.bias.numpy(), as_array(state), as_array(out))

    def differentiate(
        self, messages: Tensor, state: Tensor, out: Tensor, grad: Tensor, *, grad_state: Tensor, totals: GateGradients
    ) -> None:
        """Replace `messages` by their gradient, fill `grad_state`, each `[c, d]`, and add to the parameters' totals.

        `out` holds what :meth:`update` gave, as wide as the parameters, or no rows: the candidate is then made again.
        """
        received, own = self._widen(messages, state)
        gates = self.gates[: len(state)]
        self.sum(received, own, gates, candidate=not len(out))
        passed = grad_state if self.wide is None else self.wide[2][: len(state)]
        arrays = (as_array(state), as_array(out), as_array(grad), passed.numpy(), totals.bias.numpy())
        differentiate_rows(gates.numpy(), self.weights.bias.numpy(), *arrays)
        self._send_back(gates, received, own, passed, totals)
        if self.wide is not None:
            messages.copy_(received)
            grad_state.copy_(passed)

    def backpropagate(
        self,
        gates: Tensor,
        messages: Tensor,
        state: Tensor,
        grad: Tensor,
        passed: Tensor,
        totals: GateGradients,
        begun: Tensor | None = None,
    ) -> None:
        """:meth:`differentiate` where the sums of the gates, `[c, 4d]`, are at hand; they are overwritten.

        With `begun`, `[c, 3d]`, the gradient of the states' share of the sums is written there and goes no further.
        """
        own = state.numpy()
        arrays = (own, own[:0], grad.numpy(), passed.numpy(), totals.bias.numpy())
        differentiate_rows(gates.numpy(), self.weights.bias.numpy(), *arrays)
        self._send_back(gates, messages, state, passed, totals, begun)

    def _send_back(
        self,
        gates: Tensor,
        messages: Tensor,
        state: Tensor,
        passed: Tensor,
        totals: GateGradients,
        begun: Tensor | None = None,
    ) -> None:
        """Replace `messages` by their gradient and add to that of the states, given that of the gates' sums."""
        by_message, by_state = gates[:, : 3 * self.width], gates[:, self.width :]
        totals.to_message.addmm_(by_message.T, messages)
        if begun is None:
            totals.to_state.addmm_(by_state.T, state)
            passed.addmm_(by_state, self.weights.to_state)
        else:
            begun.copy_(by_state)
        torch.mm(by_message, self.weights.to_message, out=messages)

    def totals(self) -> GateGradients:
        """Gradients of the parameters before any row."""
        weights = self.weights
        return GateGradients(*(torch.zeros_like(each) for each in (weights.to_message, weights.to_state, weights.bias)))

    def sum(
        self, messages: Tensor, state: Tensor, gates: Tensor, *, candidate: bool = True, begun: Tensor | None = None
    ) -> None:
        """Fill the four parts of `gates`, biases aside, `[c, 4d]`; the message's share of the candidate on request.

        `begun`, `[c, 3d]`, is the states' share of the last three parts, where it is known.
        """
        width = self.width
        if begun is None:
            torch.mm(state, self.weights.by_state, out=gates[:, width:])
        else:
            gates[:, width:] = begun
        gates[:, width : 3 * width].addmm_(messages, self.weights.gates_by_message)
        if candidate:
            torch.mm(messages, self.weights.candidate_by_message, out=gates[:, :width])

    def _widen(self, messages: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if self.wide is None:
            return messages, state
        received, own = self.wide[0][: len(state)], self.wide[1][: len(state)]
        return received.copy_(messages), own.copy_(state)


def chunk_rows(weights: GateWeights) -> int:
    """Rows per chunk."""
    return max(64, min(CHUNK_ROWS, CHUNK_BYTES // (weights.bias.numel() * weights.bias.element_size())))


def add_up(parts: list[GateGradients]) -> GateGradients:
    """The sum over ranges of rows, in their order."""
    first, *others = parts
    for part in others:
        for total, value in zip(first, part):
            total += value
    return first


def tanh(x):  # type: ignore[no-untyped-def]
    raise NotImplementedError("`tanh` runs inside compiled kernels.")


@overload(tanh)
def _choose_tanh(x):  # type: ignore[no-untyped-def]
    return (lambda x: _rational_tanh(x)) if x == types.float32 else (lambda x: math.tanh(x))


@njit(fastmath=FAST, error_model="numpy")
def _rational_tanh(x):  # type: ignore[no-untyped-def]
    """tanh in single precision by a ratio of polynomials, which loops over columns can use vectors for.

    The coefficients and the bound are Eigen's; the error is at most 3e-7. At the bound fused products and sums give
    exactly 1, so that a gate that is shut is shut whatever it is multiplied by.
    """
    bound = float32(7.99881172180175781)
    x = bound if x > bound else x
    x = -bound if x < -bound else x
    s = x * x
    p = s * float32(-2.76076847742355e-16) + float32(2.00018790482477e-13)
    p = s * p + float32(-8.60467152213735e-11)
    p = s * p + float32(5.12229709037114e-08)
    p = s * p + float32(1.48572235717979e-05)
    p = s * p + float32(6.37261928875436e-04)
    p = s * p + float32(4.89352455891786e-03)
    q = s * float32(1.19825839466702e-06) + float32(1.18534705686654e-04)
    q = s * q + float32(2.26843463243900e-03)
    q = s * q + float32(4.89352518554385e-03)
    return x * p / q


@njit(fastmath=FAST, error_model="numpy")
def _sigmoid(x, half):  # type: ignore[no-untyped-def]
    return half + half * tanh(half * x)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def update_rows(gates, bias, state, out):  # type: ignore[no-untyped-def]
    """out = (1 − z) n + z h for the rows of a chunk: gates `[c, 4d]`, bias `[4d]`, state and out `[c, d]`."""
    width = state.shape[1]
    half = gates.dtype.type(0.5)
    for i in range(state.shape[0]):
        for j in range(width):
            r = _sigmoid(gates[i, width + j] + bias[width + j], half)
            z = _sigmoid(gates[i, 2 * width + j] + bias[2 * width + j], half)
            n = tanh(gates[i, j] + bias[j] + r * (gates[i, 3 * width + j] + bias[3 * width + j]))
            out[i, j] = narrow(n + z * (widen(state[i, j]) - n), out[i, j])


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def differentiate_rows(gates, bias, state, out, grad, passed, totals):  # type: ignore[no-untyped-def]
    """Put the gradients of the four parts of `gates` in their place, and what goes straight to the state in `passed`.

    Where `out` has rows they are those of :func:`update_rows`, and the candidate is (out − z h) / (1 − z): its error
    grows as 1 / (1 − z), and all that it is used for is multiplied by 1 − z. `totals`, `[4d]`, gains the sums of the
    gradients over the rows: those of the biases. Each loop writes one array and reads few, or the compiler would not
    prove them apart and would use no vectors.
    """
    width = state.shape[1]
    one, half, least = gates.dtype.type(1), gates.dtype.type(0.5), gates.dtype.type(1e-30)
    r, z, n = np.empty(width, gates.dtype), np.empty(width, gates.dtype), np.empty(width, gates.dtype)
    for i in range(state.shape[0]):
        for j in range(width):
            r[j] = _sigmoid(gates[i, width + j] + bias[width + j], half)
        for j in range(width):
            z[j] = _sigmoid(gates[i, 2 * width + j] + bias[2 * width + j], half)
        if len(out):
            for j in range(width):
                rest = one - z[j]
                n[j] = (widen(out[i, j]) - z[j] * widen(state[i, j])) / (rest if rest > least else least)
                n[j] = max(-one, min(one, n[j]))
        else:
            for j in range(width):
                n[j] = tanh(gates[i, j] + bias[j] + r[j] * (gates[i, 3 * width + j] + bias[3 * width + j]))
        for j in range(width):
            passed[i, j] = widen(grad[i, j]) * z[j]
        for j in range(width):
            gates[i, j] = (widen(grad[i, j]) - passed[i, j]) * (one - n[j] * n[j])
        for j in range(width):
            gates[i, 2 * width + j] = passed[i, j] * (widen(state[i, j]) - n[j]) * (one - z[j])
        for j in range(width):
            gates[i, width + j] = gates[i, j] * (gates[i, 3 * width + j] + bias[3 * width + j]) * r[j] * (one - r[j])
        for j in range(width):
            gates[i, 3 * width + j] = gates[i, j] * r[j]
        for j in range(4 * width):
            totals[j] += gates[i, j]
