"""The gated recurrent unit on a GPU: gates made on the chip, made again in the backward pass, never stored.

Widths 16, 32, 64 and 128 in bf16 (or in float32 where torch allows TF32, `torch.set_float32_matmul_precision`) take one
kernel forward; at 128 in bf16 a Hopper GPU has its own kernels (:mod:`gpnn.kernels.gpu_gru_hopper`). Other widths and
types take torch's products, a chunk of rows at a time, and a kernel for the gates. Backward, the gradients of the gates
of one chunk are kept long enough for their matrix products. Gradients of weights are summed in float32 or better, in a
fixed order, in bf16 by one kernel that reads the gates' once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor

from gpnn.kernels.autograd import sum_products
from gpnn.kernels.gpu_gates import (
    gate_products,
    gates_backward,
    gates_forward,
    gru_backward,
    gru_forward,
)
from gpnn.kernels.update_rule import Hints, Parameters, RowUpdate

CHUNK_BYTES = 1 << 30  # of the gradients of the gates of one chunk
WIDTHS = (16, 32, 64, 128)  # for which a tile of rows and a gate's weights fit on the chip
# the fastest of those tried on an H200 at a million rows of 128
FORWARD = {"ROWS": 128, "COLUMNS": 32, "num_warps": 4, "num_stages": 1}
BACKWARD = {"ROWS": 128, "COLUMNS": 32, "num_warps": 4, "num_stages": 1}
TILES = 4  # of rows for each multiprocessor, from which it pays to bring all weights there
GLUON = (3, 5), (3, 10)  # versions of Triton whose experimental Gluon compiles the kernels for Hopper: from, and below
PRODUCTS = {"STEP": 64, "num_warps": 8, "num_stages": 3}
SHARES = 44  # of the rows, in gradients of weights: a program of each of three blocks keeps a multiprocessor busy
ONE_PASS = {2}  # bytes of a state's number, for which one kernel reads all gradients of gates once for those of weights
SINGLE = {"ROWS": 64, "COLUMNS": 32, "num_warps": 4, "num_stages": 1}  # for float32, both ways


def gru_update(
    messages: Tensor, state: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
) -> Tensor:
    """What `torch.gru_cell` gives, `[n, d]`, in the state's type; arguments as :func:`gpnn.kernels.cpu_gru.gru_update`.

    Parameters may be float32 beside a state in bf16: products are taken in the state's type.
    """
    return RowUpdate.apply(GRURule(), messages.to(state.dtype), state, weight_ih, weight_hh, bias_ih, bias_hh)


class GRURule:
    """:class:`gpnn.kernels.update_rule.UpdateRule` of the gated recurrent unit."""

    def visible(self, inputs: Tensor) -> Tensor:
        return inputs

    def update(self, messages: Tensor, state: Tensor, parameters: Parameters) -> Tensor:
        return update_all(messages, state, parameters)

    def differentiate(
        self, messages: Tensor, state: Tensor, grad: Tensor, parameters: Parameters, sent: Tensor, hints: Hints
    ) -> tuple[Tensor, list[Tensor]]:
        return differentiate_all(messages, state, grad, parameters, sent, spent=True, scale=hints.scale)

    def finish(self, inputs: Tensor, grad: Tensor | None, sent: Tensor) -> None:
        """A node sends its state."""


def update_all(messages: Tensor, state: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
    """The states after the update, `[n, d]`."""
    out = torch.empty_like(state)
    if _stays_on_chip(state, len(state)):
        _hopper().update_rows(messages, state, _narrow(state, parameters), out, _processors(state.device)[1])
        return out
    if on_chip(state):
        options = FORWARD if state.element_size() == 2 else SINGLE
        _launch(gru_forward, (messages, state, *_narrow(state, parameters), out, len(state)), state, options)
        return out
    for rows in _chunks(state):
        incoming, own = _products(messages[rows], state[rows], parameters)
        _pointwise(gates_forward, (incoming, own, state[rows], out[rows]), state)
    return out


def differentiate_all(
    messages: Tensor,
    state: Tensor,
    grad: Tensor,
    parameters: tuple[Tensor, ...],
    grad_state: Tensor,
    *,
    spent: bool = False,
    scale: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Write the gradient of the state to `grad_state`, and return those of the messages, `[n, d]`, and the parameters.

    That of the messages is multiplied by `scale`, `[n]`, where it is given: a transposed sum would read it per entry.
    Where messages are `spent`, their gradient takes their place. Weights that stay on the chip give it before messages
    are read for the last time: then a chunk of it has a place of its own first, or, where there is one, all of it.
    """
    totals, size, on_chip = _Totals(state), _chunk_rows(state), _stays_on_chip(state, len(state))
    buffer = state.new_empty(min(size, len(state)), 4 * state.shape[1])
    own = not spent or (on_chip and len(messages) <= size)
    grad_messages = torch.empty_like(messages) if own else messages
    early = torch.empty_like(messages[:size]) if on_chip and not own else None
    for rows in _chunks(state):
        gates, arrays = buffer[: rows.stop - rows.start], (messages[rows], state[rows], grad[rows])
        places = grad_messages[rows] if early is None else early[: len(gates)], grad_state[rows]
        factors = None if scale is None else scale[rows].to(sum_type(state))
        if on_chip:
            how = (_narrow(state, parameters), (gates, *places), factors, _processors(state.device)[1])
            _hopper().differentiate_rows(*arrays, *how)
            totals.add(gates, *arrays[:2])
        else:
            _gate_gradients(*arrays, parameters, gates, places[1])
            totals.add(gates, *arrays[:2])
            _input_gradients(gates, parameters, *places)
            if factors is not None:
                places[0].mul_(factors[:, None])
        if early is not None:
            grad_messages[rows] = places[0]
    return grad_messages, [total.to(parameter.dtype) for total, parameter in zip(totals.in_order(), parameters)]


def work_bytes(state: Tensor, num_rows: int) -> float:
    """Bytes that :func:`differentiate_all` takes besides its results, for so many rows of states like these."""
    gates = 4 if on_chip(state) else 10  # of the state's width: gradients, and the sums where torch makes them
    gates += _stays_on_chip(state, num_rows)  # the messages' gradient of a chunk
    return gates * min(_chunk_rows(state), num_rows) * state.shape[1] * state.element_size()


def _gate_gradients(
    messages: Tensor, state: Tensor, grad: Tensor, parameters: tuple[Tensor, ...], gates: Tensor, out: Tensor
) -> None:
    """Fill `gates`, `[c, 4d]`, and `out`, what goes straight to the state, `[c, d]`."""
    if on_chip(state):
        options = BACKWARD if state.element_size() == 2 else SINGLE
        filled = (messages, state, grad, *_narrow(state, parameters), gates, out, len(state))
        _launch(gru_backward, filled, state, options)
    else:
        incoming, own = _products(messages, state, parameters)
        _pointwise(gates_backward, (incoming, own, state, grad, gates, out), state)


def _input_gradients(gates: Tensor, parameters: tuple[Tensor, ...], grad_messages: Tensor, grad_state: Tensor) -> None:
    """Fill the gradient of the messages, and add to that of the state, `[c, d]` each, what comes through the gates."""
    width = grad_state.shape[1]
    by_messages, by_state = (weight.to(gates.dtype) for weight in parameters[:2])
    by_messages = torch.cat([by_messages[2 * width :], by_messages[: 2 * width]])  # in the order n, r, z
    torch.mm(gates[:, : 3 * width], by_messages, out=grad_messages)
    grad_state.addmm_(gates[:, width:], by_state)


class _Totals:
    """The gradients of the parameters, summed over chunks in float32 or better."""

    def __init__(self, state: Tensor) -> None:
        width, dtype = state.shape[1], sum_type(state)
        self.by_messages, self.by_state = (state.new_zeros(3 * width, width, dtype=dtype) for _ in range(2))
        self.biases = state.new_zeros(4 * width, dtype=dtype)

    def add(self, gates: Tensor, messages: Tensor, state: Tensor) -> None:
        """Add those of one chunk."""
        width = state.shape[1]
        if on_chip(state) and state.element_size() in ONE_PASS:
            self._add_shares(gates, messages, state)
            return
        self.by_messages += sum_products(gates[:, : 3 * width], messages)
        self.by_state += sum_products(gates[:, width:], state)
        ones = gates.new_ones(len(gates), 8)  # a product reads the gates faster than a sum does
        self.biases += sum_products(gates, ones)[:, 0]

    def _add_shares(self, gates: Tensor, messages: Tensor, state: Tensor) -> None:
        """The same in one pass: each program sums a share of the rows, and the shares are summed in their order."""
        width, step = state.shape[1], PRODUCTS["STEP"]
        count = min(SHARES, triton.cdiv(len(state), step))
        share = triton.cdiv(triton.cdiv(len(state), count), step) * step
        products = self.by_state.new_empty(2, count, 3 * width, width)
        sums = self.by_state.new_empty(count, 4 * width, 16)
        arrays = (gates, messages, state, *products, sums, len(state), share)
        gate_products[(count, 3)](*arrays, D=width, PRECISION="tf32", **PRODUCTS)
        self.by_messages += products[0].sum(0)
        self.by_state += products[1].sum(0)
        self.biases += sums[:, :, 0].sum(0)

    def in_order(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradients of the weights, `[3d, d]` each, and of the biases, `[3d]` each; gates as r, z, n."""
        width = self.by_state.shape[1]
        by_messages, bias = (_rolled(values, width) for values in (self.by_messages, self.biases[: 3 * width]))
        return by_messages, self.by_state, bias, self.biases[width:]


def sum_type(state: Tensor) -> torch.dtype:
    """The type in which sums over rows of such states are taken."""
    return torch.float64 if state.dtype == torch.float64 else torch.float32


def on_chip(state: Tensor) -> bool:
    """Whether one kernel makes the sums of such states and never stores them."""
    tf32 = state.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    return state.shape[1] in WIDTHS and (tf32 or state.dtype in (torch.bfloat16, torch.float16))


def _stays_on_chip(state: Tensor, num_rows: int) -> bool:
    """Whether a multiprocessor has room for all weights, and so many rows make use of them."""
    if state.shape[1] != WIDTHS[-1] or state.dtype != torch.bfloat16 or not state.is_cuda:
        return False
    hopper, processors = _processors(state.device)
    return hopper and _has_gluon() and num_rows >= TILES * _hopper().TILE * processors


@cache
def _processors(device: torch.device) -> tuple[bool, int]:
    """Whether they are of the kind that the kernels are written for, and how many."""
    properties = torch.cuda.get_device_properties(device)
    return properties.major == 9 and torch.version.hip is None, properties.multi_processor_count


@cache
def _has_gluon() -> bool:
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    return GLUON[0] <= version < GLUON[1]


def _hopper() -> Any:
    from gpnn.kernels import gpu_gru_hopper

    return gpu_gru_hopper


def _narrow(state: Tensor, parameters: tuple[Tensor, ...]) -> list[Tensor]:
    """Weights in the state's type, biases in float32."""
    weights = [weight.to(state.dtype).contiguous() for weight in parameters[:2]]
    return weights + [bias.float() for bias in parameters[2:]]


def _launch(kernel: Any, arrays: tuple[Any, ...], state: Tensor, options: dict[str, int]) -> None:
    width = state.shape[1]
    options = options | {"COLUMNS": min(options["COLUMNS"], width)}
    kernel[(triton.cdiv(len(state), options["ROWS"]),)](
        *arrays, D=width, PRECISION="tf32", FAST=state.element_size() == 2, **options
    )


def _pointwise(kernel: Any, arrays: tuple[Tensor, ...], state: Tensor) -> None:
    count = arrays[2].numel()
    double = state.dtype == torch.float64
    kernel[(triton.cdiv(count, 1024),)](*arrays, count, state.shape[1], DOUBLE=double, BLOCK=1024)


def _products(messages: Tensor, state: Tensor, parameters: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    weight_ih, weight_hh, bias_ih, bias_hh = (parameter.to(state.dtype) for parameter in parameters)
    return torch.addmm(bias_ih, messages, weight_ih.T), torch.addmm(bias_hh, state, weight_hh.T)


def _rolled(values: Tensor, width: int) -> Tensor:
    """The blocks n, r, z in the order r, z, n."""
    return torch.cat([values[width:], values[:width]])


def _chunk_rows(state: Tensor) -> int:
    return max(1024, CHUNK_BYTES // (4 * state.shape[1] * state.element_size()))


def _chunks(state: Tensor) -> Iterator[slice]:
    step = _chunk_rows(state)
    for start in range(0, len(state), step):
        yield slice(start, min(start + step, len(state)))
