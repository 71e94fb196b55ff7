"""The Triton kernels of a graph convolution's update: its sums forward and backward, and standardised rows."""

from __future__ import annotations

import triton
import triton.language as tl

from gpnn.kernels.gpu_gates import tanh


@triton.jit
def relu(x):  # type: ignore[no-untyped-def]
    """The larger of x and 0; not-a-number stays one."""
    return tl.where(x < 0, 0.0, x)


@triton.jit
def _rows(x, row, live, column, D: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.load(x + row[:, None] * D + column[None, :], mask=live[:, None], other=0)


@triton.jit
def _standardised(x, width, live, epsilon):  # type: ignore[no-untyped-def]
    """Rows less their mean, over their standard deviation; that deviation's inverse. `live` are a tile's columns."""
    mean = tl.sum(x, 1) / width
    x = tl.where(live, x - mean[:, None], 0)
    rate = 1 / tl.sqrt(tl.sum(x * x, 1) / width + epsilon)
    return x * rate[:, None], rate


@triton.jit
def _own(h, epsilon, D: tl.constexpr, NORM: tl.constexpr):  # type: ignore[no-untyped-def]
    """n(h), in the state's type."""
    if NORM:
        result, _rate = _standardised(h.to(tl.float32), D, tl.arange(0, D)[None, :] < D, epsilon)
        return result.to(h.dtype)
    return h


@triton.jit
def _sums(  # type: ignore[no-untyped-def]
    m, h, by_message, by_state, bias, epsilon, D: tl.constexpr, OWN: tl.constexpr, NORM: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """n(h) W₁ + m W₂ + b of a tile of rows."""
    column = tl.arange(0, D)
    square = column[:, None] * D + column[None, :]
    total = tl.dot(m, tl.load(by_message + square), input_precision=PRECISION)
    if OWN:
        total = tl.dot(_own(h, epsilon, D, NORM), tl.load(by_state + square), total, input_precision=PRECISION)
    return total + tl.load(bias + column)[None, :]


@triton.jit
def convolution_forward(  # type: ignore[no-untyped-def]
    messages, state, by_message, by_state, bias, out, num_rows, epsilon, D: tl.constexpr, ROWS: tl.constexpr,
    OWN: tl.constexpr, RELU: tl.constexpr, NORM: tl.constexpr, RESIDUAL: tl.constexpr, PRECISION: tl.constexpr,
    FAST: tl.constexpr,
):  # fmt: skip
    """out = σ(n(h) W₁ + m W₂ + b), with h added where it is residual; a tile of rows per program."""
    row, column = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    live = row < num_rows
    m, h = _rows(messages, row, live, column, D), _rows(state, row, live, column, D)
    total = _sums(m, h, by_message, by_state, bias, epsilon, D, OWN, NORM, PRECISION)
    total = relu(total) if RELU else tanh(total, FAST)
    if RESIDUAL:
        total += h.to(tl.float32)
    tl.store(out + row[:, None] * D + column[None, :], total.to(out.dtype.element_ty), mask=live[:, None])


@triton.jit
def convolution_backward(  # type: ignore[no-untyped-def]
    messages, state, grad, by_message, by_state, bias, scale, slopes, grad_messages, sent, num_rows, epsilon,
    D: tl.constexpr, ROWS: tl.constexpr, OWN: tl.constexpr, RELU: tl.constexpr, NORM: tl.constexpr,
    SCALED: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The gradients of the sums, of the messages, each row times its scale, and of what rows send, `[n, d]` each."""
    row, column = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    live = row < num_rows
    place = row[:, None] * D + column[None, :]
    narrow = slopes.dtype.element_ty
    m, h = _rows(messages, row, live, column, D), _rows(state, row, live, column, D)
    total = _sums(m, h, by_message, by_state, bias, epsilon, D, OWN, NORM, PRECISION)
    received = _rows(grad, row, live, column, D).to(tl.float32)
    if RELU:
        received = tl.where(total > 0, received, 0)
    else:
        total = tanh(total, FAST)
        received *= 1 - total * total
    found = received.to(narrow)
    tl.store(slopes + place, found, mask=live[:, None])
    transposed = column[None, :] * D + column[:, None]
    back = tl.dot(found, tl.load(by_message + transposed), input_precision=PRECISION)
    if SCALED:
        back *= tl.load(scale + row, mask=live, other=0)[:, None]
    tl.store(grad_messages + place, back.to(narrow), mask=live[:, None])
    back = tl.zeros((ROWS, D), tl.float32)
    if OWN:
        back = tl.dot(found, tl.load(by_state + transposed), input_precision=PRECISION)
    tl.store(sent + place, back.to(narrow), mask=live[:, None])


@triton.jit
def convolution_products(  # type: ignore[no-untyped-def]
    slopes, messages, state, by_message, by_state, sums, num_rows, share, epsilon, D: tl.constexpr,
    STEP: tl.constexpr, OWN: tl.constexpr, NORM: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """mᵀ g, n(h)ᵀ g and the sums of g over a share of the rows, g the gradients of the sums."""
    part, column = tl.program_id(0).to(tl.int64), tl.arange(0, D)
    with_messages, with_state = tl.zeros((D, D), tl.float32), tl.zeros((D, D), tl.float32)
    total = tl.zeros((D, 16), tl.float32)
    one = tl.full((STEP, 16), 1, slopes.dtype.element_ty)
    for first in range(0, share, STEP):
        row = part * share + first + tl.arange(0, STEP)
        live = row < num_rows
        g = _rows(slopes, row, live, column, D)
        with_messages = tl.dot(
            tl.trans(_rows(messages, row, live, column, D)), g, with_messages, input_precision=PRECISION
        )
        if OWN:
            own = _own(_rows(state, row, live, column, D), epsilon, D, NORM)
            with_state = tl.dot(tl.trans(own), g, with_state, input_precision=PRECISION)
        total = tl.dot(tl.trans(g), one, total, input_precision=PRECISION)
    square = part * D * D + column[:, None] * D + column[None, :]
    tl.store(by_message + square, with_messages)
    if OWN:
        tl.store(by_state + square, with_state)
    tl.store(sums + part * D * 16 + column[:, None] * 16 + tl.arange(0, 16)[None, :], total)


@triton.jit
def activate(  # type: ignore[no-untyped-def]
    sums, state, out, count, RESIDUAL: tl.constexpr, RELU: tl.constexpr, DOUBLE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out = σ(sums), with the state added where it is residual."""
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = i < count
    value = tl.load(sums + i, mask=live, other=0).to(wide)
    value = relu(value) if RELU else tanh(value, False)
    if RESIDUAL:
        value += tl.load(state + i, mask=live, other=0).to(wide)
    tl.store(out + i, value.to(out.dtype.element_ty), mask=live)


@triton.jit
def slope(sums, grad, count, RELU: tl.constexpr, DOUBLE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Put the gradients of the sums in their place."""
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = i < count
    value = tl.load(sums + i, mask=live, other=0).to(wide)
    received = tl.load(grad + i, mask=live, other=0).to(wide)
    if RELU:
        received = tl.where(value > 0, received, 0)
    else:
        value = tanh(value, False)
        received *= 1 - value * value
    tl.store(sums + i, received.to(sums.dtype.element_ty), mask=live)


@triton.jit
def standardise(x, out, num_rows, width, epsilon, DOUBLE: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """out = (x − mean) / √(variance + ε) of each row."""
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    row, column = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, TILE)
    inside = (column < width)[None, :]
    place, live = row[:, None] * width + column[None, :], (row < num_rows)[:, None] & inside
    value, _rate = _standardised(tl.load(x + place, mask=live, other=0).to(wide), width, inside, epsilon)
    tl.store(out + place, value.to(out.dtype.element_ty), mask=live)


@triton.jit
def through_standardised(  # type: ignore[no-untyped-def]
    x, passed, grad, num_rows, width, num_passed, epsilon, DOUBLE: tl.constexpr, ROWS: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Turn the gradient of the standardised rows into that of the rows, in its place; the first gain `passed`."""
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    row, column = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, TILE)
    inside = (column < width)[None, :]
    place, live = row[:, None] * width + column[None, :], (row < num_rows)[:, None] & inside
    value, rate = _standardised(tl.load(x + place, mask=live, other=0).to(wide), width, inside, epsilon)
    received = tl.load(grad + place, mask=live, other=0).to(wide)
    mean, along = tl.sum(received, 1) / width, tl.sum(received * value, 1) / width
    received = rate[:, None] * (received - mean[:, None] - along[:, None] * value)
    received += tl.load(passed + place, mask=live & (row < num_passed)[:, None], other=0).to(wide)
    tl.store(grad + place, received.to(grad.dtype.element_ty), mask=live)
