"""A stream of random integers that compiled kernels and their slow oracles share: SplitMix64."""

import numpy as np
from numba import njit

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def stream(seed: int) -> np.ndarray:
    """The state of a stream, `[1]`: :func:`below` advances it in place."""
    return np.array([np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]], np.uint64)


@njit(cache=True)
def below(state, bound):  # type: ignore[no-untyped-def]
    """A random integer in `[0, bound)`, for bounds under 2³²; the bias is under 2⁻³² · bound."""
    state[0] += _GAMMA
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    z = z ^ (z >> np.uint64(31))
    return np.int64(((z >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@njit(cache=True)
def shuffle(state, values, length):  # type: ignore[no-untyped-def]
    """Permute `values[:length]` in place, every permutation equally likely (Fisher and Yates)."""
    for i in range(length - 1, 0, -1):
        j = below(state, i + 1)
        values[i], values[j] = values[j], values[i]
