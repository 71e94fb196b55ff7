"""Long rows cut into segments, so that one hub does not keep one warp of a GPU busy while the others wait."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gpnn.csr import pointers

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
