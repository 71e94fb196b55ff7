"""The GPU kernels, in Triton: a program per row, no atomics, no [E, d] temporary.

Long rows are cut into segments, so that one hub does not keep one warp busy while the others wait.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import torch
import triton
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gpnn.csr import pointers
from gpnn.kernels.gpu_rows import combine_maxima, combine_sums, max_rows, sum_rows

_EVERY = sys.maxsize  # the limit of rows that are pieces already
ROWS, ENTRIES = 2, 1  # rows of a program, and entries of each that it reads at one time: the fastest of those tried


def weighted_sum(
    ptr: Tensor,
    index: Tensor,
    entry: Tensor | None,
    weight: Tensor | None,
    x: Tensor,
    *,
    source_scale: Tensor | None = None,
    row_scale: Tensor | None = None,
    diagonal: Tensor | None = None,
    add: Tensor | None = None,
    winner: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """out[r] = add[r] + diagonal[r] · x[r] + row_scale[r] · Σ of weight · source_scale[index] · x[index], `[R, d]`.

    Args:
        ptr: where each row begins, `[R + 1]`.
        index: the row of `x` of each entry, `[E]`.
        entry: which weight (and, with `winner`, which entry) each entry is, `[E]`, or None: its own position.
        weight: `[E]`, or None: all one.
        x: what is summed, `[C, d]`.
        source_scale: a factor per row of `x`, `[C]`, or None.
        row_scale: a factor per row of the result, `[R]`, or None.
        diagonal: a factor of the first rows of `x` in the same rows of the result, `[n]`, or None.
        add: what is added to the first rows of the result, `[a, d]`, a at most R, or None.
        winner: `[C, d]`; where given, an entry counts only in the columns where it is the winner of its `x` row.
        out: where the result goes, or None: a new tensor. Its first rows may be `add` itself.
    """
    out = x.new_empty(ptr.numel() - 1, x.shape[1]) if out is None else out
    if not out.numel():
        return out
    tile, double = _tile(x), x.dtype == torch.float64
    absent = x  # stands for what is not there: a pointer that is never read
    arrays = [absent if t is None else t for t in (entry, weight, winner, source_scale)]
    ends = [absent if t is None else t for t in (row_scale, diagonal, add)]
    flags: dict[str, int] = {"WEIGHTED": weight is not None, "PERMUTED": entry is not None, "WON": winner is not None}
    flags |= {"SOURCE_SCALED": source_scale is not None, "DOUBLE": double, "TILE": tile}
    last = {"ROW_SCALED": row_scale is not None, "DIAGONAL": diagonal is not None, "ADDED": add is not None}
    shape, counts = x.shape[1], [0 if t is None else len(t) for t in (diagonal, add)]
    pieces = long_rows(ptr)
    settings = {"ROWS": ROWS, "EDGES": ENTRIES, "num_warps": 1 if tile <= 128 else 2}
    columns = triton.cdiv(x.shape[1], tile)
    where = (ptr, ptr[1:], index, *arrays, *ends, x, out, len(out), shape, *counts, LIMIT)
    sum_rows[(triton.cdiv(len(out), ROWS), columns)](*where, **flags, **last, **settings)
    if pieces is not None:
        partial = x.new_empty(len(pieces.start), x.shape[1], dtype=torch.float64 if double else torch.float32)
        bare, none = dict.fromkeys(last, False), [absent] * len(ends)
        where = (pieces.start, pieces.stop, index, *arrays, *none, x, partial, len(partial), shape, 0, 0, _EVERY)
        sum_rows[(triton.cdiv(len(partial), ROWS), columns)](*where, **flags, **bare, **settings)
        combine_sums[(len(pieces.rows), columns)](
            *(pieces.rows, pieces.first, partial, *ends, x, out, shape, *counts),
            **last,
            DOUBLE=double,
            TILE=tile,
            PIECES=8,
        )
    return out


def weighted_max(
    ptr: Tensor, index: Tensor, weight: Tensor | None, sign: int, x: Tensor, fill: float
) -> tuple[Tensor, Tensor]:
    """The largest of sign · weight · x[index] over each row, times sign, and the entry that gave it (−1: none)."""
    double = x.dtype == torch.float64
    best = x.new_empty(ptr.numel() - 1, x.shape[1], dtype=torch.float64 if double else torch.float32)
    winner = torch.empty(best.shape, dtype=index.dtype, device=x.device)
    if best.numel():
        tile = _tile(x)
        columns = triton.cdiv(x.shape[1], tile)
        flags = {"DOUBLE": double, "TILE": tile, "num_warps": 1 if tile <= 128 else 2}
        rest = (index, x if weight is None else weight, x)
        how = (x.shape[1], float(sign))
        max_rows[(best.shape[0], columns)](
            *(ptr, ptr[1:], *rest, best, winner, *how, LIMIT), WEIGHTED=weight is not None, **flags
        )
        pieces = long_rows(ptr)
        if pieces is not None:
            part = best.new_empty(len(pieces.start), x.shape[1])
            part_winner = winner.new_empty(part.shape)
            max_rows[(len(pieces.start), columns)](
                *(pieces.start, pieces.stop, *rest, part, part_winner, *how, _EVERY),
                WEIGHTED=weight is not None,
                **flags,
            )
            combine_maxima[(len(pieces.rows), columns)](
                *(pieces.rows, pieces.first, part, part_winner, best, winner, x.shape[1]), **flags
            )
    return torch.where(winner < 0, fill, sign * best).to(x.dtype), winner


def weighted_max_backward(
    t_ptr: Tensor, t_row: Tensor, t_entry: Tensor, weight: Tensor | None, winner: Tensor, grad: Tensor
) -> Tensor:
    """out[c] = Σ of weight · grad[row] over the entries of column c that won their row, `[C, d]`."""
    return weighted_sum(t_ptr, t_row, t_entry, weight, grad, winner=winner)


def _tile(x: Tensor) -> int:
    return min(256, max(16, triton.next_power_of_2(x.shape[1])))


LIMIT = 128  # entries that one program takes alone: a launch lasts as long as its longest row
SEGMENT = 128  # entries of one piece of a longer row

_known = WeakTensorKeyDictionary()  # row pointers -> Segments or None: found once per operator


class Segments(NamedTuple):
    """The pieces of the rows that have more than LIMIT entries.

    Attributes:
        rows: the long rows, `[L]`.
        first: long row i owns pieces `first[i]:first[i + 1]`, `[L + 1]`.
        start: first entry of each piece, `[S]`.
        stop: one past its last, `[S]`.
    """

    rows: Tensor
    first: Tensor
    start: Tensor
    stop: Tensor


def long_rows(ptr: Tensor) -> Segments | None:
    """The pieces of the long rows of a CSR, `ptr` `[R + 1]`, or None where no row is long; kept as long as `ptr` is.

    >>> pieces = long_rows(torch.tensor([0, 2, 302, 303]))
    >>> pieces.rows.tolist(), pieces.start.tolist(), pieces.stop.tolist()
    ([1], [2, 130, 258], [130, 258, 302])
    """
    if ptr not in _known:
        _known[ptr] = _cut(ptr)
    return _known[ptr]


def _cut(ptr: Tensor) -> Segments | None:
    rows = (ptr.diff() > LIMIT).nonzero().flatten()
    if not rows.numel():
        return None
    begin, end = ptr[rows].long(), ptr[rows + 1].long()
    counts = (end - begin + SEGMENT - 1) // SEGMENT
    first = pointers(counts)
    owner = torch.repeat_interleave(torch.arange(len(rows), device=ptr.device), counts)
    start = begin[owner] + (torch.arange(len(owner), device=ptr.device) - first[owner]) * SEGMENT
    return Segments(rows, first, start, torch.minimum(start + SEGMENT, end[owner]))
