"""The elementwise part of the gated recurrent unit, compiled: one pass over a chunk of rows that stays in cache.

A row of `gates` holds four parts of width d: the message's share of the candidate, the reset and the update gate's
sums, and the state's share of the candidate: [W_n m | W_r m + U_r h | W_z m + U_z h | U_n h], biases aside.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import math

import numpy as np
from numba import float32, njit, types
from numba.extending import overload

from gpnn.kernels.words import narrow, widen

_FAST = {"contract", "nsz", "arcp"}  # products and sums may fuse; not-a-number and infinity keep their meaning


def _tanh(x):
    raise NotImplementedError("`_tanh` runs inside compiled kernels.")


@overload(_tanh)
def _choose_tanh(x):
    return (lambda x: _rational_tanh(x)) if x == types.float32 else (lambda x: math.tanh(x))


@njit(fastmath=_FAST, error_model="numpy")
def _rational_tanh(x):
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


@njit(fastmath=_FAST, error_model="numpy")
def _sigmoid(x, half):
    return half + half * _tanh(half * x)


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def update_rows(gates, bias, state, out):
    """out = (1 − z) n + z h for the rows of a chunk: gates `[c, 4d]`, bias `[4d]`, state and out `[c, d]`."""
    width = state.shape[1]
    half = gates.dtype.type(0.5)
    for i in range(state.shape[0]):
        for j in range(width):
            r = _sigmoid(gates[i, width + j] + bias[width + j], half)
            z = _sigmoid(gates[i, 2 * width + j] + bias[2 * width + j], half)
            n = _tanh(gates[i, j] + bias[j] + r * (gates[i, 3 * width + j] + bias[3 * width + j]))
            out[i, j] = narrow(n + z * (widen(state[i, j]) - n), out[i, j])


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def differentiate_rows(gates, bias, state, out, grad, passed, totals):
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
                n[j] = _tanh(gates[i, j] + bias[j] + r[j] * (gates[i, 3 * width + j] + bias[3 * width + j]))
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
