"""The update of a graph convolution on a GPU: sums made on the chip, made again in the backward pass, never stored.

Widths 16, 32, 64 and 128 in bf16 (or in float32 where torch allows TF32) take one kernel forward, and backward one for
the gradients of inputs and one for those of weights. Other widths and types take torch's products, a chunk of rows at a
time, and a kernel for what lies between them. Gradients of weights are summed in float32 or better, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import triton
from torch import Tensor

from gpnn.csr import slices
from gpnn.kernels.autograd import sum_products
from gpnn.kernels.convolution import EPSILON, Convolution
from gpnn.kernels.gpu_convolution_rows import (
    activate,
    convolution_backward,
    convolution_forward,
    convolution_products,
    slope,
    standardise,
    through_standardised,
)
from gpnn.kernels.gpu_gru import on_chip, sum_type
from gpnn.kernels.update_rule import Hints, Parameters

CHUNK_BYTES = 1 << 30  # of the gradients of the sums of one chunk
TILE = {"ROWS": 64, "num_warps": 4, "num_stages": 1}
PRODUCTS = {"STEP": 64, "num_warps": 8, "num_stages": 3}
SHARES = 132  # of the rows, in gradients of weights: a program each, which keeps a multiprocessor busy
ONE_PASS = {2}  # bytes of a state's number, for which one kernel reads all rows once for the gradients of weights
BLOCK = 1024  # entries per program, of what lies between torch's products


class ConvolutionRule:
    """:class:`gpnn.kernels.update_rule.UpdateRule` of a convolution."""

    def __init__(self, form: Convolution) -> None:
        self.form = form

    def visible(self, inputs: Tensor) -> Tensor:
        return standardised(inputs) if self.form.norm else inputs

    def update(self, messages: Tensor, state: Tensor, parameters: Parameters) -> Tensor:
        out = torch.empty_like(state)
        if on_chip(state):
            self._launch(convolution_forward, (messages, state, *_narrow(state, parameters), out), state, parameters)
            return out
        for rows in _chunks(state):
            sums, _ = self._sums(messages[rows], state[rows], parameters)
            self._pointwise(activate, (sums, state[rows], out[rows]), RESIDUAL=self.form.residual)
        return out

    def differentiate(
        self, messages: Tensor, state: Tensor, grad: Tensor, parameters: Parameters, sent: Tensor, hints: Hints
    ) -> tuple[Tensor, list[Tensor]]:
        totals, fast = _Totals(parameters, state), on_chip(state)
        buffer = state.new_empty(min(_chunk_rows(state), len(state)), state.shape[1]) if fast else None
        back = torch.empty_like(messages) if fast and len(messages) <= _chunk_rows(state) else None
        for rows in _chunks(state):
            arrays, scale = (messages[rows], state[rows], grad[rows]), None
            if hints.scale is not None:
                scale = hints.scale[rows].to(sum_type(state))
            if buffer is not None:
                slopes = buffer[: rows.stop - rows.start]
                place = torch.empty_like(slopes) if back is None else back
                self._differentiate_tiles(*arrays, parameters, (slopes, place, sent[rows]), scale)
                totals.add_rows(slopes, *arrays[:2], self.form)
                if back is None:
                    messages[rows] = place
            else:
                slopes, own = self._sums(*arrays[:2], parameters)
                self._pointwise(slope, (slopes, arrays[2]))
                totals.add(slopes, arrays[0], own)
                _input_gradients(slopes, parameters, arrays[0], sent[rows])
                if scale is not None:
                    arrays[0].mul_(scale[:, None])
        return messages if back is None else back, totals.in_order()

    def finish(self, inputs: Tensor, grad: Tensor | None, sent: Tensor) -> None:
        passed = grad if grad is not None and self.form.residual else None
        if self.form.norm:
            absent, count = sent if passed is None else passed, 0 if passed is None else len(passed)
            _launch_rows(through_standardised, (inputs, absent, sent), count)
        elif passed is not None:
            sent[: len(passed)] += passed

    def _differentiate_tiles(
        self,
        messages: Tensor,
        state: Tensor,
        grad: Tensor,
        parameters: Parameters,
        places: tuple[Tensor, Tensor, Tensor],
        scale: Tensor | None,
    ) -> None:
        """Fill the gradients of the sums, of the messages, scaled, and of what rows send, `[c, d]` each."""
        arrays = (messages, state, grad, *_narrow(state, parameters), state if scale is None else scale, *places)
        self._launch(convolution_backward, arrays, state, parameters, SCALED=scale is not None)

    def _launch(
        self, kernel: Any, arrays: tuple[Tensor, ...], state: Tensor, parameters: Parameters, **flags: bool
    ) -> None:
        form, grid = self.form, (triton.cdiv(len(state), TILE["ROWS"]),)
        flags |= {"OWN": len(parameters) > 2, "RELU": form.activation == "relu", "NORM": form.norm}
        if kernel is convolution_forward:
            flags["RESIDUAL"] = form.residual
        fast = state.element_size() == 2
        where = (*arrays, len(state), EPSILON)
        kernel[grid](*where, D=state.shape[1], PRECISION="tf32", FAST=fast, **flags, **TILE)

    def _sums(self, messages: Tensor, state: Tensor, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """n(h) W₁ + m W₂ + b, and n(h), `[c, d]` each, by torch's products."""
        by_message, bias, *by_state = (each.to(state.dtype) for each in parameters)
        sums = torch.addmm(bias, messages, by_message)
        own = self.visible(state) if by_state else state
        return sums.addmm_(own, by_state[0]) if by_state else sums, own

    def _pointwise(self, kernel: Any, arrays: tuple[Tensor, ...], **flags: bool) -> None:
        count, double = arrays[0].numel(), arrays[0].dtype == torch.float64
        flags |= {"RELU": self.form.activation == "relu", "DOUBLE": double}
        kernel[(triton.cdiv(count, BLOCK),)](*arrays, count, **flags, BLOCK=BLOCK)


def standardised(x: Tensor) -> Tensor:
    """(x − mean) / √(variance + ε) of each row, `[n, d]`."""
    out = torch.empty_like(x)
    _launch_rows(standardise, (x, out))
    return out


def work_bytes(state: Tensor, num_rows: int) -> float:
    """Bytes that a backward pass takes besides its results, for so many rows of states like these."""
    buffers = 2 if on_chip(state) else 3  # gradients of sums and of messages; or sums, own states and what rows send
    return buffers * min(_chunk_rows(state), num_rows) * state.shape[1] * state.element_size()


class _Totals:
    """The gradients of the parameters, summed over chunks in float32 or better."""

    def __init__(self, parameters: Parameters, state: Tensor) -> None:
        self.parameters = parameters
        wide = [
            torch.zeros_like(each, dtype=torch.float64 if not on_chip(state) else sum_type(state))
            for each in parameters
        ]
        self.by_message, self.bias, self.by_state = wide[0], wide[1], wide[2] if len(wide) > 2 else None

    def add(self, slopes: Tensor, messages: Tensor, own: Tensor) -> None:
        """Add those of one chunk, by torch's products."""
        self.by_message += sum_products(messages, slopes)
        self.bias += sum_products(slopes, slopes.new_ones(len(slopes), 8))[:, 0]
        if self.by_state is not None:
            self.by_state += sum_products(own, slopes)

    def add_rows(self, slopes: Tensor, messages: Tensor, state: Tensor, form: Convolution) -> None:
        """The same in one pass: each program sums a share of the rows, and the shares are summed in their order."""
        if state.element_size() not in ONE_PASS:
            self.add(slopes, messages, standardised(state) if form.norm else state)
            return
        width, step, own = state.shape[1], PRODUCTS["STEP"], self.by_state is not None
        count = min(SHARES, triton.cdiv(len(state), step))
        share = triton.cdiv(triton.cdiv(len(state), count), step) * step
        products = self.bias.new_empty(1 + own, count, width, width)
        sums = self.bias.new_empty(count, width, 16)
        arrays = (slopes, messages, state, products[0], products[-1], sums, len(state), share, EPSILON)
        flags = {"OWN": own, "NORM": form.norm}
        convolution_products[(count,)](*arrays, D=width, PRECISION="tf32", **flags, **PRODUCTS)
        self.by_message += products[0].sum(0)
        self.bias += sums[:, :, 0].sum(0)
        if self.by_state is not None:
            self.by_state += products[1].sum(0)

    def in_order(self) -> list[Tensor]:
        """As the parameters, in their types."""
        found = (self.by_message, self.bias, self.by_state)
        return [total.to(each.dtype) for total, each in zip(found, self.parameters) if total is not None]


def _input_gradients(slopes: Tensor, parameters: Parameters, grad_messages: Tensor, sent: Tensor) -> None:
    by_message, _, *by_state = (each.to(slopes.dtype) for each in parameters)
    torch.mm(slopes, by_message.T, out=grad_messages)
    if by_state:
        torch.mm(slopes, by_state[0].T, out=sent)
    else:
        sent.zero_()


def _narrow(state: Tensor, parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of messages and states in the state's type, the bias in float32; any weight stands for a missing one."""
    by_message, bias, *by_state = parameters
    weights = [each.to(state.dtype).contiguous() for each in (by_message, *by_state)]
    return weights[0], weights[-1], bias.float()


def _launch_rows(kernel: Any, arrays: tuple[Tensor, ...], *counts: int) -> None:
    x = arrays[0]
    if x.numel():
        tile = triton.next_power_of_2(x.shape[1])
        rows = max(1, 1024 // tile)
        where = (*arrays, len(x), x.shape[1], *counts, EPSILON)
        kernel[(triton.cdiv(len(x), rows),)](*where, DOUBLE=x.dtype == torch.float64, ROWS=rows, TILE=tile)


def _chunk_rows(state: Tensor) -> int:
    return max(1024, CHUNK_BYTES // (state.shape[1] * state.element_size()))


def _chunks(state: Tensor) -> Iterator[slice]:
    return slices(len(state), _chunk_rows(state))
