r"""The gated recurrent unit on a GPU whose reset gate acts before the matrix product, as in Cho et al. (2014).

.. math::
    r = \sigma(W_r m + U_r h), \quad z = \sigma(W_z m + U_z h), \quad
    n = \tanh(W_n m + U_n (r \odot h)), \quad h' = (1 - z) n + z h

Products are torch's; what lies between two of them is one kernel. The gates are kept for the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.autograd import first_order, sum_products
from gpnn.kernels.gpu_gates import sigmoid, tanh

BLOCK = 1024  # entries per program


def gru_update_before(
    messages: Tensor, state: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
) -> Tensor:
    """The states after the update, `[n, d]`, in the state's type; arguments as :func:`gpnn.kernels.cpu_gru.gru_update`.

    Parameters may be float32 beside a state in bf16: products are taken in the state's type.
    """
    return _GRUBefore.apply(messages.to(state.dtype), state, weight_ih, weight_hh, bias_ih, bias_hh)


class _GRUBefore(Function):
    @staticmethod
    def forward(ctx: Any, messages: Tensor, state: Tensor, *parameters: Tensor) -> Tensor:
        messages, state, width = messages.contiguous(), state.contiguous(), state.shape[1]
        by_messages, by_state, bias_ih, bias_hh = (parameter.to(state.dtype) for parameter in parameters)
        sums = torch.addmm(bias_ih, messages, by_messages.T)  # [n, 3d]
        gates = torch.addmm(bias_hh[: 2 * width], state, by_state[: 2 * width].T)  # [n, 2d], r and z in the end
        reset_state, out = torch.empty_like(state), torch.empty_like(state)
        _launch(_open_gates, (sums, gates, state, reset_state), state)
        candidate = torch.addmm(bias_hh[2 * width :], reset_state, by_state[2 * width :].T)
        _launch(_blend, (sums, gates, state, candidate, out), state)
        ctx.save_for_backward(messages, state, gates, candidate, *parameters)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        messages, state, gates, candidate, *parameters = ctx.saved_tensors
        width = state.shape[1]
        by_messages, by_state = (weight.to(state.dtype) for weight in parameters[:2])
        inner = state.new_empty(len(state), 3 * width)  # gradients before the non-linearities of r, z and n
        grad_state, reset_state = torch.empty_like(state), torch.empty_like(state)
        _launch(_blend_backward, (gates, state, candidate, grad.contiguous(), inner, grad_state), state)
        by_reset_state = inner[:, 2 * width :] @ by_state[2 * width :]  # [n, d]
        _launch(_open_gates_backward, (gates, state, by_reset_state, inner, grad_state, reset_state), state)
        grad_state.addmm_(inner[:, : 2 * width], by_state[: 2 * width])
        weights = (
            sum_products(inner, messages),
            torch.cat([sum_products(inner[:, : 2 * width], state), sum_products(inner[:, 2 * width :], reset_state)]),
        )
        bias = sum_products(inner, inner.new_ones(len(inner), 8))[:, 0]  # a product reads faster than a sum does
        totals = [total.to(parameter.dtype) for total, parameter in zip((*weights, bias, bias), parameters)]
        return inner @ by_messages, grad_state, *totals


def _launch(kernel: Any, arrays: tuple[Tensor, ...], state: Tensor) -> None:
    count, double = state.numel(), state.dtype == torch.float64
    kernel[(triton.cdiv(count, BLOCK),)](*arrays, count, state.shape[1], DOUBLE=double, BLOCK=BLOCK)


@triton.jit
def _open_gates(sums, gates, state, reset_state, count, width, DOUBLE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """gates = (r, z), from the states' share of their sums; reset_state = r ⊙ h."""
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = i < count
    row, column = i // width, i % width
    of_sums, of_gates = sums + row * 3 * width + column, gates + row * 2 * width + column
    before = tl.load(state + i, mask=live, other=0).to(wide)
    reset = tl.load(of_sums, mask=live, other=0).to(wide) + tl.load(of_gates, mask=live, other=0).to(wide)
    keep = tl.load(of_sums + width, mask=live, other=0).to(wide)
    keep += tl.load(of_gates + width, mask=live, other=0).to(wide)
    reset, keep = sigmoid(reset, False), sigmoid(keep, False)
    tl.store(of_gates, reset.to(gates.dtype.element_ty), mask=live)
    tl.store(of_gates + width, keep.to(gates.dtype.element_ty), mask=live)
    tl.store(reset_state + i, (reset * before).to(reset_state.dtype.element_ty), mask=live)


@triton.jit
def _blend(sums, gates, state, candidate, out, count, width, DOUBLE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """candidate = n, from the reset states' share of its sum; out = (1 − z) n + z h."""
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = i < count
    row, column = i // width, i % width
    before = tl.load(state + i, mask=live, other=0).to(wide)
    keep = tl.load(gates + row * 2 * width + width + column, mask=live, other=0).to(wide)
    new = tl.load(sums + row * 3 * width + 2 * width + column, mask=live, other=0).to(wide)
    new = tanh(new + tl.load(candidate + i, mask=live, other=0).to(wide), False)
    tl.store(candidate + i, new.to(candidate.dtype.element_ty), mask=live)
    tl.store(out + i, (new + keep * (before - new)).to(out.dtype.element_ty), mask=live)


@triton.jit
def _blend_backward(  # type: ignore[no-untyped-def]
    gates, state, candidate, grad, inner, grad_state, count, width, DOUBLE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The blocks z and n of `inner`, `[n, 3d]`, and what goes straight to the state."""
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = i < count
    row, column = i // width, i % width
    received, before = tl.load(grad + i, mask=live, other=0).to(wide), tl.load(state + i, mask=live, other=0).to(wide)
    keep = tl.load(gates + row * 2 * width + width + column, mask=live, other=0).to(wide)
    new = tl.load(candidate + i, mask=live, other=0).to(wide)
    place = inner + row * 3 * width + column
    by_keep = received * (before - new) * keep * (1 - keep)
    tl.store(place + width, by_keep.to(inner.dtype.element_ty), mask=live)
    by_candidate = received * (1 - keep) * (1 - new * new)
    tl.store(place + 2 * width, by_candidate.to(inner.dtype.element_ty), mask=live)
    tl.store(grad_state + i, (received * keep).to(grad_state.dtype.element_ty), mask=live)


@triton.jit
def _open_gates_backward(  # type: ignore[no-untyped-def]
    gates, state, by_reset_state, inner, grad_state, reset_state, count, width,
    DOUBLE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The block r of `inner`, what the reset state adds to the state's gradient, and r ⊙ h again."""
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = i < count
    row, column = i // width, i % width
    before = tl.load(state + i, mask=live, other=0).to(wide)
    reset = tl.load(gates + row * 2 * width + column, mask=live, other=0).to(wide)
    received = tl.load(by_reset_state + i, mask=live, other=0).to(wide)
    by_reset = received * before * reset * (1 - reset)
    tl.store(inner + row * 3 * width + column, by_reset.to(inner.dtype.element_ty), mask=live)
    straight = tl.load(grad_state + i, mask=live, other=0).to(wide) + received * reset
    tl.store(grad_state + i, straight.to(grad_state.dtype.element_ty), mask=live)
    tl.store(reset_state + i, (reset * before).to(reset_state.dtype.element_ty), mask=live)
