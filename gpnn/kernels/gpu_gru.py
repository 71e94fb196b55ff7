"""The gated recurrent unit on a GPU: gates made on the chip, made again in the backward pass, never stored.

Widths 16, 32, 64 and 128 in bf16 (or in float32 where torch allows TF32, `torch.set_float32_matmul_precision`) take one
kernel forward; at 128 in bf16 a Hopper GPU's multiprocessors keep all weights while many rows go by. Other widths and
types take torch's products, a chunk of rows at a time, and a kernel for the gates. Backward, the gradients of the gates
of one chunk are kept long enough for their matrix products. Gradients of weights are summed in float32 or better, in a
fixed order, in bf16 by one kernel that reads the gates' once.

A whole step of a gated graph network (:class:`GatedStep`) aggregates and updates as one function of the states. Besides
the states and their gradients it holds one tensor of the messages' size: in the backward pass their gradient takes
their place, and the transposed sum adds to the gradient of the states where that stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.autograd import first_order, sum_products
from gpnn.kernels.gated import StepUse
from gpnn.kernels.gpu import weighted_sum
from gpnn.kernels.gpu_gates import (
    gate_products,
    gates_backward,
    gates_forward,
    gru_backward,
    gru_forward,
    gru_resident,
)
from gpnn.kernels.operator import Operator

CHUNK_BYTES = 1 << 30  # of the gradients of the gates of one chunk
WIDTHS = (16, 32, 64, 128)  # for which a tile of rows and a gate's weights fit on the chip
# the fastest of those tried on an H200 at a million rows of 128
FORWARD = {"ROWS": 128, "COLUMNS": 32, "num_warps": 4, "num_stages": 1}
BACKWARD = {"ROWS": 128, "COLUMNS": 32, "num_warps": 4, "num_stages": 1}
RESIDENT = {"ROWS": 64, "num_warps": 8, "num_stages": 1}  # both ways, where all weights stay on the chip
TILES = 4  # of rows for each multiprocessor, from which it pays to bring all weights there
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
    return _GRU.apply(messages.to(state.dtype), state, weight_ih, weight_hh, bias_ih, bias_hh)


class _GRU(Function):
    @staticmethod
    def forward(ctx: Any, messages: Tensor, state: Tensor, *parameters: Tensor) -> Tensor:
        messages, state = messages.contiguous(), state.contiguous()
        ctx.save_for_backward(messages, state, *parameters)
        return update_all(messages, state, parameters)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        messages, state, *parameters = ctx.saved_tensors
        grad_messages, grad_state = torch.empty_like(messages), torch.empty_like(state)
        totals = differentiate_all(messages, state, grad.contiguous(), tuple(parameters), (grad_messages, grad_state))
        return grad_messages, grad_state, *totals


def update_all(messages: Tensor, state: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
    """The states after the update, `[n, d]`."""
    out = torch.empty_like(state)
    if _stays_on_chip(state):
        _launch_resident((messages, state, state, *_narrow(state, parameters), out, out), state, backward=False)
        return out
    if _on_chip(state):
        options = FORWARD if state.element_size() == 2 else SINGLE
        _launch(gru_forward, (messages, state, *_narrow(state, parameters), out, len(state)), state, options)
        return out
    for rows in _chunks(state):
        incoming, own = _products(messages[rows], state[rows], parameters)
        _pointwise(gates_forward, (incoming, own, state[rows], out[rows]), state)
    return out


def differentiate_all(
    messages: Tensor, state: Tensor, grad: Tensor, parameters: tuple[Tensor, ...], into: tuple[Tensor, Tensor]
) -> list[Tensor]:
    """Put the gradients of messages and state into two tensors, `[n, d]` each, and return those of the parameters.

    The gradient of the messages may take the place of the messages.
    """
    width, totals = state.shape[1], _Totals(state)
    by_messages, by_state = (weight.to(state.dtype) for weight in parameters[:2])
    by_messages = torch.cat([by_messages[2 * width :], by_messages[: 2 * width]])  # in the order n, r, z
    buffer = state.new_empty(min(_chunk_rows(state), len(state)), 4 * width)
    for rows in _chunks(state):
        gates, grad_messages, grad_state = buffer[: rows.stop - rows.start], into[0][rows], into[1][rows]
        arrays = (messages[rows], state[rows], grad[rows])
        _gate_gradients(*arrays, parameters, gates, grad_state)
        totals.add(gates, messages[rows], state[rows])
        torch.mm(gates[:, : 3 * width], by_messages, out=grad_messages)
        grad_state.addmm_(gates[:, width:], by_state)
    return [total.to(parameter.dtype) for total, parameter in zip(totals.in_order(), parameters)]


def work_bytes(state: Tensor, num_rows: int) -> float:
    """Bytes that :func:`differentiate_all` takes besides its results, for so many rows of states like these."""
    gates = 4 if _on_chip(state) else 10  # of the state's width: gradients, and the sums where torch makes them
    return gates * min(_chunk_rows(state), num_rows) * state.shape[1] * state.element_size()


def _gate_gradients(
    messages: Tensor, state: Tensor, grad: Tensor, parameters: tuple[Tensor, ...], gates: Tensor, out: Tensor
) -> None:
    """Fill `gates`, `[c, 4d]`, and `out`, what goes straight to the state, `[c, d]`."""
    if _stays_on_chip(state):
        arrays = (messages, state, grad, *_narrow(state, parameters), gates, out)
        _launch_resident(arrays, state, backward=True)
    elif _on_chip(state):
        options = BACKWARD if state.element_size() == 2 else SINGLE
        filled = (messages, state, grad, *_narrow(state, parameters), gates, out, len(state))
        _launch(gru_backward, filled, state, options)
    else:
        incoming, own = _products(messages, state, parameters)
        _pointwise(gates_backward, (incoming, own, state, grad, gates, out), state)


class _Totals:
    """The gradients of the parameters, summed over chunks in float32 or better."""

    def __init__(self, state: Tensor) -> None:
        width, dtype = state.shape[1], _sum_type(state)
        self.by_messages, self.by_state = (state.new_zeros(3 * width, width, dtype=dtype) for _ in range(2))
        self.biases = state.new_zeros(4 * width, dtype=dtype)

    def add(self, gates: Tensor, messages: Tensor, state: Tensor) -> None:
        """Add those of one chunk."""
        width = state.shape[1]
        if _on_chip(state) and state.element_size() in ONE_PASS:
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


def _sum_type(state: Tensor) -> torch.dtype:
    return torch.float64 if state.dtype == torch.float64 else torch.float32


def _on_chip(state: Tensor) -> bool:
    tf32 = state.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    return state.shape[1] in WIDTHS and (tf32 or state.dtype in (torch.bfloat16, torch.float16))


def _stays_on_chip(state: Tensor) -> bool:
    """Whether a multiprocessor has room for all weights, and rows enough to make use of them."""
    if state.shape[1] != WIDTHS[-1] or state.element_size() != 2 or not state.is_cuda:
        return False
    hopper, processors = _processors(state.device)
    return hopper and len(state) >= TILES * RESIDENT["ROWS"] * processors


@cache
def _processors(device: torch.device) -> tuple[bool, int]:
    """Whether they are of the kind that this was measured on, and how many."""
    properties = torch.cuda.get_device_properties(device)
    return properties.major == 9, properties.multi_processor_count


def _launch_resident(arrays: tuple[Any, ...], state: Tensor, *, backward: bool) -> None:
    _, processors = _processors(state.device)
    gru_resident[(processors,)](*arrays, len(state), D=state.shape[1], BACKWARD=backward, **RESIDENT)


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


class GatedStep(Function):
    """:func:`gpnn.kernels.gated.gated_step` on a GPU."""

    @staticmethod
    def forward(
        ctx: Any, operator: Operator, diagonal: Tensor | None, use: StepUse, inputs: Tensor, *parameters: Tensor
    ) -> Tensor:
        inputs = inputs.contiguous()
        messages, own = _aggregate(operator, diagonal, inputs), inputs[: operator.shape[0]]
        out = update_all(messages, own, parameters) if use.values else own.new_zeros(1, 1).expand_as(own)
        ctx.operator, ctx.diagonal, ctx.spent = operator, diagonal, False
        ctx.save_for_backward(inputs, messages if use.gradients else None, *parameters)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, messages, *parameters = ctx.saved_tensors
        operator, diagonal = ctx.operator, ctx.diagonal
        messages = (
            _aggregate(operator, diagonal, inputs) if ctx.spent else messages.data
        )  # their gradient takes their place
        ctx.spent = True
        total, num_rows = torch.empty_like(inputs), operator.shape[0]
        into = (messages, total[:num_rows])
        grads = differentiate_all(messages, inputs[:num_rows], grad.contiguous(), tuple(parameters), into)
        weighted_sum(
            *(operator.t_ptr, operator.t_row, operator.t_entry, operator.weight, messages),
            source_scale=operator.row_scale,
            row_scale=operator.col_scale,
            diagonal=diagonal,
            add=total[:num_rows],
            out=total,
        )
        return None, None, None, total, *grads


def _aggregate(operator: Operator, diagonal: Tensor | None, inputs: Tensor) -> Tensor:
    """The aggregated messages of the first n rows, `[n, d]`."""
    parts = (operator.ptr, operator.col, None, operator.weight)
    scales = (operator.col_scale, operator.row_scale)
    return weighted_sum(*parts, inputs, source_scale=scales[0], row_scale=scales[1], diagonal=diagonal)


class GatedSteps(Function):
    """`repeat` times :func:`gpnn.kernels.gated.gated_step` of the first rows; the others are held as they are.

    What held senders bring is summed once, and its gradient is sent back once. In between a step reads and writes the
    block's own rows alone: where they fit the L2 cache, they stay there.
    """

    @staticmethod
    def forward(
        ctx: Any,
        operator: Operator,
        diagonal: Tensor | None,
        use: StepUse,
        repeat: int,
        inputs: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        inputs = inputs.detach().contiguous()
        steps, state = _Steps(operator, diagonal, inputs), inputs[: operator.shape[0]]
        states, received = [state], []
        for step in range(repeat):
            messages = steps.aggregate(state)
            if use.gradients:
                received.append(messages)
            if step + 1 < repeat or use.values:
                state = update_all(messages, state, parameters)
                states.append(state)
        ctx.steps, ctx.states, ctx.received, ctx.num_inputs = steps, states[:repeat], received, len(inputs)
        ctx.save_for_backward(*parameters)
        return state if use.values else state.new_zeros(1, 1).expand_as(state)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.received is None:
            raise RuntimeError("Steps taken in one go can be differentiated once. Got a second backward pass.")
        steps, states, received = ctx.steps, ctx.states, ctx.received
        ctx.states = ctx.received = None  # gradients of messages take the messages' place
        grad, total, held = grad.contiguous(), grad.new_empty(ctx.num_inputs, grad.shape[1]), None
        sums: list[Tensor] = []
        while received:
            state, messages = states.pop(), received.pop()
            passed = torch.empty_like(grad) if received else total[: len(grad)]
            grads = differentiate_all(messages, state, grad, ctx.saved_tensors, (messages, passed))
            sums = grads if not sums else [a.add_(b) for a, b in zip(sums, grads)]
            steps.send_inside(messages, passed)
            held, grad = messages if held is None else held.add_(messages), passed
        assert held is not None
        steps.send_held(held, total[len(grad) :])
        return None, None, None, None, total, *sums


class _Steps:
    """A block's messages: from its own rows, `[n, n]`, and from held senders, `[n, m − n]`, summed once."""

    def __init__(self, operator: Operator, diagonal: Tensor | None, inputs: Tensor) -> None:
        self.scale, self.diagonal = operator.row_scale, diagonal
        self.inside, self.cut = operator.by_column
        self.held: Tensor | None = None
        if self.cut.num_entries:
            parts = (self.cut.ptr, self.cut.col, None, self.cut.weight)
            others, source_scale = inputs[operator.shape[0] :], self.cut.col_scale
            self.held = weighted_sum(*parts, others, source_scale=source_scale, row_scale=self.scale)

    def aggregate(self, state: Tensor) -> Tensor:
        """The messages to rows in these states, `[n, d]`."""
        parts = (self.inside.ptr, self.inside.col, None, self.inside.weight)
        scales = (self.inside.col_scale, self.scale)
        diagonal, held = self.diagonal, self.held
        return weighted_sum(*parts, state, source_scale=scales[0], row_scale=scales[1], diagonal=diagonal, add=held)

    def send_inside(self, grad: Tensor, total: Tensor) -> None:
        """Add to the gradient of the block's rows what comes through messages with the gradient `grad`, `[n, d]`."""
        back, scales = self.inside, (self.scale, self.inside.col_scale)
        parts = (back.t_ptr, back.t_row, back.t_entry, back.weight, grad)
        diagonal = self.diagonal
        weighted_sum(*parts, source_scale=scales[0], row_scale=scales[1], diagonal=diagonal, add=total, out=total)

    def send_held(self, grad: Tensor, out: Tensor) -> None:
        """The gradient of the held senders, `[m − n, d]`, given that of all steps' messages."""
        back = self.cut
        parts = (back.t_ptr, back.t_row, back.t_entry, back.weight)
        weighted_sum(*parts, grad, source_scale=self.scale, row_scale=back.col_scale, out=out)
