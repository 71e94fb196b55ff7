"""The update of a graph convolution on the CPU: sums and activations in buffers that stay in cache.

As of the gated recurrent unit (:mod:`gpnn.kernels.cpu_gru`), nothing but its inputs is kept, and the backward pass
makes the sums again, a chunk of rows at a time. Gradients of weights are summed over chunks in float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from gpnn.csr import slices
from gpnn.kernels.convolution import EPSILON, Convolution
from gpnn.kernels.cpu import as_array, launch
from gpnn.kernels.cpu_gates import FAST, tanh, thread_buffer
from gpnn.kernels.execution import share_rows
from gpnn.kernels.simd import narrow, widen
from gpnn.kernels.update_rule import Hints, Parameters
from gpnn.pages import empty_large

CHUNK_ROWS, CHUNK_BYTES = 2048, 1 << 19  # at most, of the sums of a chunk, which fit a core's cache beside its states
_SUMS = {*FAST, "reassoc"}  # a row's sums may be taken in any order


class Totals(NamedTuple):
    """Gradients of the parameters from some of the rows, in float64: of the sums' weights and of the bias."""

    by_message: Tensor
    by_state: Tensor
    bias: Tensor


class ConvolutionRule:
    """:class:`gpnn.kernels.update_rule.UpdateRule` of a convolution."""

    def __init__(self, form: Convolution) -> None:
        self.form = form

    def visible(self, inputs: Tensor) -> Tensor:
        if not self.form.norm:
            return inputs
        out = empty_large(*inputs.shape, dtype=inputs.dtype)
        launch(standardise_rows, len(inputs), inputs.numel(), inputs, out, _constants(inputs))
        return out

    def update(self, messages: Tensor, state: Tensor, parameters: Parameters) -> Tensor:
        out, rows = empty_large(*state.shape, dtype=state.dtype), _chunk_rows(parameters)

        def do(start: int, stop: int) -> None:
            sums = _Sums(self.form, parameters, min(rows, stop - start))
            for chunk in slices(stop, rows, start):
                values = sums.of(messages[chunk], state[chunk])[0]
                flags = (self.form.activation == "relu", self.form.residual)
                activate_rows(values.numpy(), as_array(state[chunk]), as_array(out[chunk]), *flags)

        share_rows(len(state), _work(state, parameters), do, multiple=rows)
        return out

    def differentiate(
        self, messages: Tensor, state: Tensor, grad: Tensor, parameters: Parameters, sent: Tensor, hints: Hints
    ) -> tuple[Tensor, list[Tensor]]:
        rows = _chunk_rows(parameters)

        def do(start: int, stop: int) -> Totals:
            sums, totals = _Sums(self.form, parameters, min(rows, stop - start)), _zeros(parameters)
            for chunk in slices(stop, rows, start):
                sums.differentiate(messages[chunk], state[chunk], grad[chunk], sent[chunk], totals)
            return totals

        first, *others = share_rows(len(state), _work(state, parameters), do, multiple=rows)
        for part in others:
            for total, value in zip(first, part):
                total += value
        found = (first.by_message, first.bias, first.by_state)
        return messages, [total.to(each.dtype) for total, each in zip(found, parameters)]

    def finish(self, inputs: Tensor, grad: Tensor | None, sent: Tensor) -> None:
        passed = grad if grad is not None and self.form.residual else sent[:0]
        if self.form.norm:
            arrays = (inputs, passed.contiguous(), sent, _constants(inputs))
            launch(through_standardised_rows, len(sent), 4 * sent.numel(), *arrays)
        elif len(passed):
            sent[: len(passed)] += passed


class _Sums:
    """The sums n(h) W₁ + m W₂ + b of one chunk of rows, in buffers of one thread."""

    def __init__(self, form: Convolution, parameters: Parameters, rows: int) -> None:
        self.form, (self.by_message, self.bias, *own) = form, (each.detach() for each in parameters)
        self.by_state = own[0] if own else None
        self.width, self.constants = self.bias.numel(), _constants(self.bias)
        self.values, self.own, self.received = (
            thread_buffer(use, rows * self.width, self.bias).view(rows, self.width)
            for use in ("sums", "own", "received")
        )

    def of(self, messages: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The sums, and the messages and n(h) as wide as the parameters, `[c, d]` each."""
        values, received = self.values[: len(state)], self._widened(messages, self.received)
        torch.addmm(self.bias, received, self.by_message, out=values)
        if self.by_state is None:
            return values, received, state
        own = self.own[: len(state)]
        if self.form.norm:
            standardise_rows(0, len(state), as_array(state), own.numpy(), self.constants)
        else:
            own = self._widened(state, self.own)
        return values.addmm_(own, self.by_state), received, own

    def differentiate(self, messages: Tensor, state: Tensor, grad: Tensor, sent: Tensor, totals: Totals) -> None:
        """Replace `messages` by their gradient, fill `sent`, `[c, d]` each, and add to the parameters' totals."""
        slopes, received, own = self.of(messages, state)
        relu = self.form.activation == "relu"
        slope_rows(slopes.numpy(), as_array(grad.contiguous()), totals.bias.numpy(), relu)
        totals.by_message.add_(received.T @ slopes)
        torch.mm(slopes, self.by_message.T, out=received)
        messages.copy_(received)
        if self.by_state is None:
            sent.zero_()
            return
        totals.by_state.add_(own.T @ slopes)
        sent.copy_(torch.mm(slopes, self.by_state.T, out=self.own[: len(state)]))

    def _widened(self, values: Tensor, buffer: Tensor) -> Tensor:
        return values if values.dtype == buffer.dtype else buffer[: len(values)].copy_(values)


def _constants(x: Tensor) -> tuple[np.floating, np.floating, np.floating]:
    """1, 1 / width and ε in the type that sums over a row are taken in."""
    number = np.float64 if x.dtype == torch.float64 else np.float32
    return number(1), number(1 / x.shape[-1]), number(EPSILON)


def _zeros(parameters: Parameters) -> Totals:
    by_message, bias = (torch.zeros_like(each, dtype=torch.float64) for each in parameters[:2])
    return Totals(by_message, torch.zeros_like(by_message), bias)


def _chunk_rows(parameters: Parameters) -> int:
    bias = parameters[1]
    return max(64, min(CHUNK_ROWS, CHUNK_BYTES // (bias.numel() * bias.element_size())))


def _work(state: Tensor, parameters: Parameters) -> int:
    return (len(parameters) - 1) * state.numel() * state.shape[1]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def activate_rows(sums, state, out, relu, residual):  # type: ignore[no-untyped-def]
    """out = σ(sums), with the state added where the update is residual, `[c, d]` each; the sums are overwritten."""
    zero = sums.dtype.type(0)
    for i in range(sums.shape[0]):
        if relu:
            for j in range(sums.shape[1]):
                sums[i, j] = zero if sums[i, j] < zero else sums[i, j]  # not-a-number stays one
        else:
            for j in range(sums.shape[1]):
                sums[i, j] = tanh(sums[i, j])
        if residual:
            for j in range(sums.shape[1]):
                sums[i, j] += widen(state[i, j])
        for j in range(sums.shape[1]):
            out[i, j] = narrow(sums[i, j], out[i, j])


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def slope_rows(sums, grad, totals, relu):  # type: ignore[no-untyped-def]
    """Put the gradients of the sums, `[c, d]`, in their place; `totals`, `[d]`, gains their sums over the rows."""
    zero, one = sums.dtype.type(0), sums.dtype.type(1)
    for i in range(sums.shape[0]):
        if relu:
            for j in range(sums.shape[1]):
                sums[i, j] = widen(grad[i, j]) if sums[i, j] > zero else zero
        else:
            for j in range(sums.shape[1]):
                value = tanh(sums[i, j])
                sums[i, j] = widen(grad[i, j]) * (one - value * value)
        for j in range(sums.shape[1]):
            totals[j] += sums[i, j]


@njit(cache=True, nogil=True, fastmath=_SUMS, error_model="numpy")
def standardise_rows(start, stop, x, out, constants):  # type: ignore[no-untyped-def]
    """out = (x − mean) / √(variance + ε) of each row, `[n, d]`; constants: 1, 1 / d and ε."""
    for i in range(start, stop):
        mean, rate = _moments(x[i], constants)
        for j in range(x.shape[1]):
            out[i, j] = narrow((widen(x[i, j]) - mean) * rate, out[i, j])


@njit(fastmath=_SUMS, error_model="numpy")
def _moments(row, constants):  # type: ignore[no-untyped-def]
    """A row's mean and one over its standard deviation."""
    one, share, epsilon = constants
    total, squares = one - one, one - one
    for j in range(len(row)):
        total += widen(row[j])
    mean = total * share
    for j in range(len(row)):
        squares += (widen(row[j]) - mean) * (widen(row[j]) - mean)
    return mean, one / math.sqrt(squares * share + epsilon)


@njit(cache=True, nogil=True, fastmath=_SUMS, error_model="numpy")
def through_standardised_rows(start, stop, x, passed, grad, constants):  # type: ignore[no-untyped-def]
    """Turn the gradient of the standardised rows into that of the rows `x`, in its place; the first gain `passed`."""
    width, share = x.shape[1], constants[1]
    for i in range(start, stop):
        mean, rate = _moments(x[i], constants)
        total, along = mean - mean, mean - mean
        for j in range(width):
            total += widen(grad[i, j])
        for j in range(width):
            along += widen(grad[i, j]) * (widen(x[i, j]) - mean)
        total *= share
        along *= rate * rate * share
        added = i < len(passed)
        for j in range(width):
            value = rate * (widen(grad[i, j]) - total - along * (widen(x[i, j]) - mean))
            grad[i, j] = narrow(value + widen(passed[i, j]) if added else value, grad[i, j])
