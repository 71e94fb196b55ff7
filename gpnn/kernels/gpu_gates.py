"""The Triton kernels of the gated recurrent unit: gates forward and gates backward.

Gradients of gates stand side by side in one array of four blocks of d columns, (n, r, z, U_n h): the first three go
through the messages' weights, the last three through the states', so that either is one matrix product of a slice.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tanh(x, FAST: tl.constexpr):  # type: ignore[no-untyped-def]
    """tanh; FAST is the chip's own instruction, good to eleven bits, for states of eight."""
    if FAST:
        return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    return 2 / (1 + tl.exp(-2 * x)) - 1


@triton.jit
def sigmoid(x, FAST: tl.constexpr):  # type: ignore[no-untyped-def]
    if FAST:
        return 0.5 * tanh(0.5 * x, FAST) + 0.5
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _dot(a, weight, gate, column, D: tl.constexpr, PRECISION: tl.constexpr, total):  # type: ignore[no-untyped-def]
    """total + a · weight[gate]ᵀ for some columns of one gate, weights `[3d, d]`."""
    b = tl.load(weight + (gate * D + column)[None, :] * D + tl.arange(0, D)[:, None])
    return tl.dot(a, b, total, input_precision=PRECISION)


@triton.jit
def _gates(  # type: ignore[no-untyped-def]
    m, h, w_ih, w_hh, b_ih, b_hh, column, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """r, z, n and U_n h + b of a tile of rows, for some columns."""
    b_r = tl.load(b_ih + column) + tl.load(b_hh + column)
    b_z = tl.load(b_ih + D + column) + tl.load(b_hh + D + column)
    b_n, c_n = tl.load(b_ih + 2 * D + column), tl.load(b_hh + 2 * D + column)
    nothing = tl.zeros((ROWS, COLUMNS), tl.float32)
    total = _dot(m, w_ih, 0, column, D, PRECISION, nothing)
    total = _dot(h, w_hh, 0, column, D, PRECISION, total)
    reset = sigmoid(total + b_r[None, :], FAST)
    recurrent = _dot(h, w_hh, 2, column, D, PRECISION, nothing) + c_n[None, :]
    total = reset * recurrent + b_n[None, :]
    candidate = tanh(_dot(m, w_ih, 2, column, D, PRECISION, total), FAST)
    total = _dot(m, w_ih, 1, column, D, PRECISION, nothing)
    total = _dot(h, w_hh, 1, column, D, PRECISION, total)
    keep = sigmoid(total + b_z[None, :], FAST)
    return reset, keep, candidate, recurrent


@triton.jit
def gru_forward(  # type: ignore[no-untyped-def]
    messages, state, w_ih, w_hh, b_ih, b_hh, out, num_rows, D: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """out = (1 − z) n + z h, a tile of rows per program; the products never leave the chip."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = (row < num_rows)[:, None]
    begin = row[:, None] * D
    inner = tl.arange(0, D)[None, :]
    m = tl.load(messages + begin + inner, mask=live, other=0)
    h = tl.load(state + begin + inner, mask=live, other=0)
    for first in range(0, D, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        _reset, keep, candidate, _recurrent = _gates(
            m, h, w_ih, w_hh, b_ih, b_hh, column, D, ROWS, COLUMNS, PRECISION, FAST
        )  # fmt: skip
        before = tl.load(state + begin + column[None, :], mask=live, other=0).to(tl.float32)
        after = candidate + keep * (before - candidate)
        tl.store(out + begin + column[None, :], after.to(out.dtype.element_ty), mask=live)


@triton.jit
def gru_backward(  # type: ignore[no-untyped-def]
    messages, state, grad, w_ih, w_hh, b_ih, b_hh, gates, grad_state, num_rows, D: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The gradients of the gates before their non-linearities, `[n, 4d]`, and what goes straight to the state."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = (row < num_rows)[:, None]
    begin = row[:, None] * D
    inner = tl.arange(0, D)[None, :]
    m = tl.load(messages + begin + inner, mask=live, other=0)
    h = tl.load(state + begin + inner, mask=live, other=0)
    for first in range(0, D, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        reset, keep, candidate, recurrent = _gates(
            m, h, w_ih, w_hh, b_ih, b_hh, column, D, ROWS, COLUMNS, PRECISION, FAST
        )  # fmt: skip
        place = begin + column[None, :]
        received = tl.load(grad + place, mask=live, other=0).to(tl.float32)
        before = tl.load(state + place, mask=live, other=0).to(tl.float32)
        passed = received * keep
        by_candidate, by_reset, by_keep = _through_gates(received, passed, before, reset, keep, candidate, recurrent)
        _store_gates(
            gates + 4 * begin + column[None, :], D, live, by_candidate, by_reset, by_keep, by_candidate * reset
        )
        tl.store(grad_state + place, passed.to(grad_state.dtype.element_ty), mask=live)


@triton.jit
def gate_products(  # type: ignore[no-untyped-def]
    gates, messages, state, by_messages, by_state, sums, num_rows, share, D: tl.constexpr, STEP: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The products of gradients of gates with messages and states over some rows, and their sums, a share per program.

    The first of three blocks of programs takes n with the messages and U_n h with the states, the others r and z with
    either; they go through the rows together, and read messages and states from the cache. The result of a share is
    `[3d, d]`, blocks as n, r, z and as r, z, U_n h, and `[4d, 16]`, whose columns are equal.
    """
    part, left = tl.program_id(0).to(tl.int64), tl.program_id(1)
    right = tl.where(left == 0, 3, left)
    column = tl.arange(0, D)
    one = tl.full((STEP, 16), 1, gates.dtype.element_ty)
    with_messages, with_state = tl.zeros((D, D), tl.float32), tl.zeros((D, D), tl.float32)
    sum_left, sum_right = tl.zeros((D, 16), tl.float32), tl.zeros((D, 16), tl.float32)
    for first in range(0, share, STEP):
        row = part * share + first + tl.arange(0, STEP)
        live = (row < num_rows)[:, None]
        m = tl.load(messages + row[:, None] * D + column[None, :], mask=live, other=0)
        h = tl.load(state + row[:, None] * D + column[None, :], mask=live, other=0)
        place = gates + row[:, None] * (4 * D) + column[None, :]
        a, b = tl.load(place + left * D, mask=live, other=0), tl.load(place + right * D, mask=live, other=0)
        with_messages = tl.dot(tl.trans(a), m, with_messages, input_precision=PRECISION)
        with_state = tl.dot(tl.trans(b), h, with_state, input_precision=PRECISION)
        sum_left = tl.dot(tl.trans(a), one, sum_left, input_precision=PRECISION)
        sum_right = tl.dot(tl.trans(b), one, sum_right, input_precision=PRECISION)
    square = column[:, None] * D + column[None, :]
    tl.store(by_messages + (part * 3 + left) * D * D + square, with_messages)
    tl.store(by_state + (part * 3 + right - 1) * D * D + square, with_state)
    narrow = column[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(sums + (part * 4 + left) * D * 16 + narrow, sum_left)
    if left == 0:
        tl.store(sums + (part * 4 + right) * D * 16 + narrow, sum_right)


@triton.jit
def _through_gates(received, passed, before, reset, keep, candidate, recurrent):  # type: ignore[no-untyped-def]
    by_candidate = (received - passed) * (1 - candidate * candidate)
    by_reset = by_candidate * recurrent * reset * (1 - reset)
    by_keep = passed * (before - candidate) * (1 - keep)
    return by_candidate, by_reset, by_keep


@triton.jit
def _store_gates(place, d, live, by_candidate, by_reset, by_keep, by_recurrent):  # type: ignore[no-untyped-def]
    narrow = place.dtype.element_ty
    tl.store(place, by_candidate.to(narrow), mask=live)
    tl.store(place + d, by_reset.to(narrow), mask=live)
    tl.store(place + 2 * d, by_keep.to(narrow), mask=live)
    tl.store(place + 3 * d, by_recurrent.to(narrow), mask=live)


@triton.jit
def gates_forward(incoming, own, state, out, count, width, DOUBLE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The same as :func:`gru_forward` from the products `incoming` and `own`, `[n, 3d]`, of any width; count = n d."""
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = i < count
    at = i // width * 3 * width + i % width
    _reset, keep, candidate, _recurrent = _from_products(incoming, own, at, width, live, wide)
    before = tl.load(state + i, mask=live, other=0).to(wide)
    tl.store(out + i, (candidate + keep * (before - candidate)).to(out.dtype.element_ty), mask=live)


@triton.jit
def gates_backward(  # type: ignore[no-untyped-def]
    incoming, own, state, grad, gates, grad_state, count, width, DOUBLE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The same as :func:`gru_backward` from the products."""
    wide: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = i < count
    at = i // width * 3 * width + i % width
    reset, keep, candidate, recurrent = _from_products(incoming, own, at, width, live, wide)
    received = tl.load(grad + i, mask=live, other=0).to(wide)
    before = tl.load(state + i, mask=live, other=0).to(wide)
    passed = received * keep
    place = gates + i // width * 4 * width + i % width
    by_candidate, by_reset, by_keep = _through_gates(received, passed, before, reset, keep, candidate, recurrent)
    _store_gates(place, width, live, by_candidate, by_reset, by_keep, by_candidate * reset)
    tl.store(grad_state + i, passed.to(grad_state.dtype.element_ty), mask=live)


@triton.jit
def _from_products(incoming, own, at, width, live, wide: tl.constexpr):  # type: ignore[no-untyped-def]
    reset = sigmoid(_load_sum(incoming, own, at, live, wide), False)
    keep = sigmoid(_load_sum(incoming, own, at + width, live, wide), False)
    at += 2 * width
    recurrent = tl.load(own + at, mask=live, other=0).to(wide)
    candidate = tanh(tl.load(incoming + at, mask=live, other=0).to(wide) + reset * recurrent, False)
    return reset, keep, candidate, recurrent


@triton.jit
def _load_sum(a, b, at, live, wide: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.load(a + at, mask=live, other=0).to(wide) + tl.load(b + at, mask=live, other=0).to(wide)
