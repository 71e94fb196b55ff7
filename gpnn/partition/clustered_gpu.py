"""The Triton kernel of the label propagation on a GPU; :func:`gpnn.partition.kernels.adopt_labels` is the CPU's."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _hash(x):  # type: ignore[no-untyped-def]
    """ "lowbias32" (Wellons 2018)."""
    x = x.to(tl.uint32)
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def adopt_labels(ptr, col, label, closed, out, seed, number, SAMPLE: tl.constexpr):  # type: ignore[no-untyped-def]
    """out[v] = the label that most of v's neighbours have, if more have it than v's own; half of the nodes per round.

    Of more than SAMPLE neighbours, SAMPLE evenly spaced ones are counted. Labels in `closed` accept no new nodes. Ties
    are broken by a hash of (label, seed), the same for all nodes, so that neighbours choose alike.
    """
    node = tl.program_id(0).to(tl.int64)
    first = tl.load(ptr + node)
    count = tl.load(ptr + node + 1) - first
    own = tl.load(label + node)
    slot = tl.arange(0, SAMPLE)
    live = slot < count
    at = first + tl.where(count > SAMPLE, slot * count // SAMPLE, slot)
    theirs = tl.load(label + tl.load(col + at, mask=live, other=0), mask=live, other=-1)
    votes = tl.sum(((theirs[:, None] == theirs[None, :]) & live[None, :]).to(tl.int32), 1)
    full = tl.load(closed + tl.maximum(theirs, 0), mask=live, other=1) != 0
    preference = (_hash(theirs ^ seed) >> 22).to(tl.int32)
    score = tl.where(live & ((theirs == own) | (full == 0)), votes * 1024 + preference, -1)
    best = tl.max(score, 0)
    chosen = tl.max(tl.where(score == best, theirs, -1), 0)
    kept = tl.sum(tl.where(live & (theirs == own), 1, 0), 0)
    may_move = (_hash(node ^ number) & 1) == 0
    moves = may_move & (best >= (kept + 1) * 1024)
    tl.store(out + node, tl.where(moves, chosen, own))
