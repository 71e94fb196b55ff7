"""The gated recurrent unit of 128 channels in bf16 on a Hopper GPU: all weights stay on the chip.

A program per multiprocessor keeps the six matrices of weights (192 KiB) while tiles of 64 rows go by. Products of later
gates are under way while earlier ones are opened. Backward, the gradients of a tile's gates go from the chip into the
products that give those of messages and states, with the same weights. Two buffers of a tile hold messages and states,
then what follows from them, which the copy engine writes to memory; the rows of the next tile wait in registers.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

WIDTH, TILE = 128, 64
_WARPS = 8
_barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # its name before Triton 3.7
_write = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global  # its name before Triton 3.9

D = gl.constexpr(WIDTH)
ROWS = gl.constexpr(TILE)
SHARED = gl.constexpr(gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2))
PRODUCT = gl.constexpr(gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 2], instr_shape=[16, 64, 16]))
LINES = gl.constexpr(gl.BlockedLayout([1, 8], [2, 16], [_WARPS, 1], [1, 0]))  # 16 bytes per thread
COLUMN = gl.constexpr(gl.SliceLayout(0, PRODUCT))
FLAT = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))


def update_rows(messages: Tensor, state: Tensor, parameters: list[Tensor], out: Tensor, programs: int) -> None:
    """Put the states after the update into `out`, `[n, d]`; weights are bf16, biases float32."""
    arrays = (messages, state, *parameters, _tiles(out), len(state))
    _forward[(programs,)](*arrays, num_warps=_WARPS)


def differentiate_rows(
    messages: Tensor,
    state: Tensor,
    grad: Tensor,
    parameters: list[Tensor],
    into: tuple[Tensor, Tensor, Tensor],
    scale: Tensor | None,
    programs: int,
) -> None:
    """Put the gradients of gates, `[n, 4d]` as (n, r, z, U_n h), of messages and of states, `[n, d]`, into tensors.

    That of the messages is multiplied by `scale`, float32, `[n]`, where it is given.
    """
    factors = state if scale is None else scale  # a pointer that is never read stands for none
    arrays = (messages, state, grad, *parameters, *map(_tiles, into), factors, len(state))
    _backward[(programs,)](*arrays, SCALED=scale is not None, num_warps=_WARPS)


def _tiles(x: Tensor) -> Any:
    """How the copy engine finds the tiles of a matrix."""
    return TensorDescriptor.from_tensor(x, [TILE, WIDTH], SHARED.value)


@gluon.jit
def _tanh(x):  # type: ignore[no-untyped-def]
    return gl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=gl.float32, is_pure=True, pack=1)


@gluon.jit
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return 0.5 * _tanh(0.5 * x) + 0.5


@gluon.jit
def _bias(bias):  # type: ignore[no-untyped-def]
    return bias.load(COLUMN)[None, :]


@gluon.jit
def _weights(weight, gate):  # type: ignore[no-untyped-def]
    """The weights of one gate, `[d, d]`, on the chip."""
    row, column = gl.arange(0, D, gl.SliceLayout(1, LINES)), gl.arange(0, D, gl.SliceLayout(0, LINES))
    found = gl.load(weight + (gate * D + row)[:, None] * D + column[None, :])
    return gl.allocate_shared_memory(gl.bfloat16, [D, D], SHARED, found)


@gluon.jit
def _stay(w_ih, w_hh, b_ih, b_hh):  # type: ignore[no-untyped-def]
    """What stays on the chip: the weights of r, z, n of messages and of states, the biases of r, z, W_n m and U_n h."""
    w_r, w_z, w_n = _weights(w_ih, 0), _weights(w_ih, 1), _weights(w_ih, 2)
    u_r, u_z, u_n = _weights(w_hh, 0), _weights(w_hh, 1), _weights(w_hh, 2)
    i = gl.arange(0, D, COLUMN)
    b_r, b_z = gl.load(b_ih + i) + gl.load(b_hh + i), gl.load(b_ih + D + i) + gl.load(b_hh + D + i)
    b_n, c_n = gl.load(b_ih + 2 * D + i), gl.load(b_hh + 2 * D + i)
    b_r = gl.allocate_shared_memory(gl.float32, [D], FLAT, b_r)
    b_z = gl.allocate_shared_memory(gl.float32, [D], FLAT, b_z)
    b_n = gl.allocate_shared_memory(gl.float32, [D], FLAT, b_n)
    c_n = gl.allocate_shared_memory(gl.float32, [D], FLAT, c_n)
    return w_r, w_z, w_n, u_r, u_z, u_n, b_r, b_z, b_n, c_n


@gluon.jit
def _load(x, tile, num_rows):  # type: ignore[no-untyped-def]
    row = tile.to(gl.int64) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, LINES))
    column = gl.arange(0, D, gl.SliceLayout(0, LINES))
    return gl.load(x + row[:, None] * D + column[None, :], mask=(row < num_rows)[:, None], other=0.0)


@gluon.jit
def _multiply(a, b, total, more: gl.constexpr):  # type: ignore[no-untyped-def]
    return hopper.warpgroup_mma(a, b, total, use_acc=more, is_async=True)


@gluon.jit
def _fill(buffer, other, x, y):  # type: ignore[no-untyped-def]
    """Put two tiles where products and the copy engine read them."""
    buffer.store(x)
    other.store(y)
    hopper.fence_async_shared()
    _barrier()


@gluon.jit
def _gates(m, h, stay):  # type: ignore[no-untyped-def]
    """r, z, n and U_n h + b of a tile; products of later gates are under way while earlier ones are opened."""
    w_r, w_z, w_n, u_r, u_z, u_n, b_r, b_z, b_n, c_n = stay
    nothing = gl.zeros([ROWS, D], gl.float32, PRODUCT)
    reset = _multiply(m, w_r.permute((1, 0)), nothing, False)
    reset = _multiply(h, u_r.permute((1, 0)), reset, True)
    recurrent = _multiply(h, u_n.permute((1, 0)), nothing, False)
    candidate = _multiply(m, w_n.permute((1, 0)), nothing, False)
    keep = _multiply(m, w_z.permute((1, 0)), nothing, False)
    keep = _multiply(h, u_z.permute((1, 0)), keep, True)
    reset, recurrent, candidate, keep = hopper.warpgroup_mma_wait(4, deps=[reset, recurrent, candidate, keep])
    reset = _sigmoid(reset + _bias(b_r))
    recurrent, candidate, keep = hopper.warpgroup_mma_wait(2, deps=[recurrent, candidate, keep])
    recurrent = recurrent + _bias(c_n)
    candidate = _tanh(candidate + _bias(b_n) + reset * recurrent)
    keep = hopper.warpgroup_mma_wait(0, deps=[keep])
    keep = _sigmoid(keep + _bias(b_z))
    return reset, keep, candidate, recurrent


@gluon.jit
def _forward(messages, state, w_ih, w_hh, b_ih, b_hh, out, num_rows):  # type: ignore[no-untyped-def]
    """out = (1 − z) n + z h; `out` is a descriptor of tiles."""
    stay = _stay(w_ih, w_hh, b_ih, b_hh)
    one = gl.allocate_shared_memory(gl.bfloat16, [ROWS, D], SHARED)
    two = gl.allocate_shared_memory(gl.bfloat16, [ROWS, D], SHARED)
    first, step = gl.program_id(0), gl.num_programs(0)
    m, h = _load(messages, first, num_rows), _load(state, first, num_rows)
    for tile in range(first, gl.cdiv(num_rows, ROWS), step):
        _fill(one, two, m, h)
        m, h = _load(messages, tile + step, num_rows), _load(state, tile + step, num_rows)
        _reset, keep, candidate, _recurrent = _gates(one, two, stay)
        before = two.load(PRODUCT).to(gl.float32)
        after = candidate + keep * (before - candidate)
        _barrier()
        one.store(after.to(gl.bfloat16))
        hopper.fence_async_shared()
        _barrier()
        _write(out, [tile * ROWS, 0], one)
        tma.store_wait(0)
        _barrier()


@gluon.jit
def _backward(  # type: ignore[no-untyped-def]
    messages, state, grad, w_ih, w_hh, b_ih, b_hh, gates, grad_messages, grad_state, scale, num_rows,
    SCALED: gl.constexpr,
):  # fmt: skip
    """The gradients of gates, of messages and of states, each a descriptor of tiles."""
    stay = _stay(w_ih, w_hh, b_ih, b_hh)
    w_r, w_z, w_n, u_r, u_z, u_n, _b_r, _b_z, _b_n, _c_n = stay
    one = gl.allocate_shared_memory(gl.bfloat16, [ROWS, D], SHARED)
    two = gl.allocate_shared_memory(gl.bfloat16, [ROWS, D], SHARED)
    first, step = gl.program_id(0), gl.num_programs(0)
    m, h, g = _load(messages, first, num_rows), _load(state, first, num_rows), _load(grad, first, num_rows)
    for tile in range(first, gl.cdiv(num_rows, ROWS), step):
        place = tile * ROWS
        _fill(one, two, m, h)
        reset, keep, candidate, recurrent = _gates(one, two, stay)
        _barrier()
        one.store(g)
        _barrier()
        received, before = one.load(PRODUCT).to(gl.float32), two.load(PRODUCT).to(gl.float32)
        _barrier()
        passed = received * keep
        by_keep = passed * (before - candidate) * (1 - keep)
        by_candidate = (received - passed) * (1 - candidate * candidate)
        by_recurrent = by_candidate * reset
        by_reset = by_recurrent * recurrent * (1 - reset)
        _fill(one, two, by_candidate.to(gl.bfloat16), by_reset.to(gl.bfloat16))
        nothing = gl.zeros([ROWS, D], gl.float32, PRODUCT)
        to_messages = _multiply(one, w_n, nothing, False)
        to_messages = _multiply(two, w_r, to_messages, True)
        to_state = _multiply(two, u_r, passed, True)
        _write(gates, [place, 0], one)
        _write(gates, [place, D], two)
        g = _load(grad, tile + step, num_rows)
        m, h = _load(messages, tile + step, num_rows), _load(state, tile + step, num_rows)
        to_messages, to_state = hopper.warpgroup_mma_wait(0, deps=[to_messages, to_state])
        tma.store_wait(0)
        _barrier()
        _fill(one, two, by_keep.to(gl.bfloat16), by_recurrent.to(gl.bfloat16))
        to_messages = _multiply(one, w_z, to_messages, True)
        to_state = _multiply(one, u_z, to_state, True)
        to_state = _multiply(two, u_n, to_state, True)
        _write(gates, [place, 2 * D], one)
        _write(gates, [place, 3 * D], two)
        row = place + gl.arange(0, ROWS, gl.SliceLayout(1, PRODUCT))
        factor = gl.load(scale + row, mask=row < num_rows, other=0.0) if SCALED else 1.0
        to_messages, to_state = hopper.warpgroup_mma_wait(0, deps=[to_messages, to_state])
        tma.store_wait(0)
        _barrier()
        if SCALED:
            to_messages = to_messages * factor[:, None]  # type: ignore[index]
        _fill(one, two, to_messages.to(gl.bfloat16), to_state.to(gl.bfloat16))
        _write(grad_messages, [place, 0], one)
        _write(grad_state, [place, 0], two)
        tma.store_wait(0)
        _barrier()
