"""The loop over edges of :mod:`gpnn.graph.digest`, compiled."""

import numpy as np
from numba import njit

from gpnn.graph import digest

_SENDER, _RECEIVER, _TYPE, _WEIGHT, _MIX = (
    np.uint64(each) for each in (digest.SENDER, digest.RECEIVER, digest.TYPE, digest.WEIGHT, digest.MIX)
)


@njit(cache=True)
def sum_hashes(start, src, dst, kind, weight):  # type: ignore[no-untyped-def]
    """The sum of the edges' hashes, and of the hashes times 2·(position) + 1, positions counted from `start`.

    Empty arrays stand for edges without types or weights.
    """
    edges, listed = np.uint64(0), np.uint64(0)
    for e in range(len(src)):
        hashed = np.uint64(src[e]) * _SENDER + np.uint64(dst[e]) * _RECEIVER
        if len(kind):
            hashed += np.uint64(kind[e]) * _TYPE
        if len(weight):
            hashed += np.uint64(weight[e]) * _WEIGHT
        hashed ^= hashed >> np.uint64(29)
        hashed *= _MIX
        hashed ^= hashed >> np.uint64(32)
        edges += hashed
        listed += hashed * np.uint64(2 * (start + e) + 1)
    return edges, listed
