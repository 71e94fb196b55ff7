"""Random masks as a pure function of where they stand, so that a recomputed or sharded pass sees the same ones.

An entry is kept or dropped by a hash of (key, row, column): no state, no order, the same on every device.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.check import check_probabilities
from gpnn.kernels.autograd import first_order, is_plain
from gpnn.kernels.operator import Operator

_WORD = 0xFFFFFFFF


def hash_key(*numbers: int) -> int:
    """A 64-bit key from any integers (seed, epoch, pass, layer, …).

    >>> hash_key(0, 1) == hash_key(0, 1), hash_key(0, 1) == hash_key(1, 0)
    (True, False)
    """
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def dropout_mask(key: int, rows: Tensor, num_columns: int, p: float, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """1/(1 − p) where an entry is kept and 0 where it is dropped, with probability `p`, `[len(rows), num_columns]`.

    Args:
        key: from :func:`hash_key`.
        rows: the ids that stand for the rows (the user's node ids), `[n]`.
        num_columns: number of columns.
        p: probability that an entry is dropped, at least 0 and below 1.
        dtype: floating type of the result.
    """
    check_probabilities(p=p)
    if rows.device.type == "cuda":
        from gpnn.kernels import gpu_masks

        out = torch.empty(rows.numel(), num_columns, dtype=dtype, device=rows.device)
        gpu_masks.fill_mask(key, rows, _threshold(p), 1 / (1 - p), out)
        return out
    if rows.device.type != "cpu" or dtype not in (torch.float32, torch.float64):
        columns = torch.arange(num_columns, device=rows.device)
        return hash_mask(key, rows[:, None], columns, p, dtype=dtype)
    from gpnn.kernels.cpu import fill_mask, launch

    out = torch.empty(rows.numel(), num_columns, dtype=dtype)
    words, threshold, scale = _words(key, p, dtype)
    launch(fill_mask, len(out), out.numel(), *words, rows, threshold, scale, out)
    return out


def row_mask(key: int, rows: Tensor, p: float, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """The same for whole rows (DropNode), `[len(rows), 1]`."""
    return dropout_mask(key, rows, 1, p, dtype=dtype)


def drop(x: Tensor, key: int, rows: Tensor, p: float, *, whole: bool, dtype: torch.dtype | None = None) -> Tensor:
    """`x` times :func:`dropout_mask`, or :func:`row_mask` for `whole` rows; on a GPU in one pass, without the mask.

    Args:
        x: `[n, d]`.
        key: from :func:`hash_key`.
        rows: the ids that stand for the rows, `[n]`.
        p: probability that an entry or a row is dropped.
        whole: whether whole rows are.
        dtype: of the result, where `x` needs no gradient; None: that of `x`.
    """
    if x.is_cuda and not is_plain():
        return _Drop.apply(x, key, rows, p, whole, dtype or x.dtype)
    return x * dropout_mask(key, rows, 1 if whole else x.shape[1], p, dtype=x.dtype)


class _Drop(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, key: int, rows: Tensor, p: float, whole: bool, dtype: torch.dtype) -> Tensor:
        from gpnn.kernels.gpu_masks import mask_rows

        check_probabilities(p=p)
        ctx.arguments = key, rows, p, whole
        out = torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)
        mask_rows(key, rows, _threshold(p), 1 / (1 - p), x, out, whole=whole)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        key, rows, p, whole = ctx.arguments
        return drop(grad, key, rows, p, whole=whole), None, None, None, None, None


def entry_mask(key: int, rows: Tensor, columns: Tensor, p: float, *, dtype: torch.dtype) -> Tensor:
    """The mask of single entries `(rows[e], columns[e])`, equal to those of :func:`dropout_mask`, `[E]`."""
    if rows.device.type != "cuda":
        return hash_mask(key, rows, columns, p, dtype=dtype)
    from gpnn.kernels import gpu_masks

    out = torch.empty(rows.numel(), dtype=dtype, device=rows.device)
    gpu_masks.fill_entries(key, rows, columns, _threshold(p), 1 / (1 - p), out)
    return out


def hash_mask(key: int, rows: Tensor, columns: Tensor, p: float, *, dtype: torch.dtype) -> Tensor:
    """:func:`entry_mask` by torch's own operations, on any device; rows and columns may broadcast."""
    row_hash = _mix(rows.long() & _WORD ^ (key & _WORD))
    value = _mix((row_hash + columns.long() * 0x9E3779B9 & _WORD) ^ (key >> 32))
    return (value >= _threshold(p)).to(dtype) * (1 / (1 - p))


def masked_weight(operator: Operator, key: int, p: float, rows: Tensor | None = None) -> Tensor:
    """The weights of an operator's entries times :func:`entry_mask` of their rows and columns, `[E]`.

    Args:
        operator: whose entries are masked.
        key: from :func:`hash_key`.
        p: probability that an entry is dropped.
        rows: the ids that stand for the operator's rows, `[R]`; None: their numbers.
    """
    weight, dtype = operator.weight, torch.float32 if operator.weight is None else operator.weight.dtype
    if operator.ptr.device.type != "cpu" or dtype not in (torch.float32, torch.float64):
        owners = operator.rows() if rows is None else rows[operator.rows()]
        mask = entry_mask(key, owners, operator.col, p, dtype=dtype)
        return mask if weight is None else weight * mask
    from gpnn.kernels.cpu import launch, mask_entries

    out = torch.empty(operator.num_entries, dtype=dtype)
    words, threshold, scale = _words(key, p, dtype)
    given, ids = out[:0] if weight is None else weight, operator.ptr[:0] if rows is None else rows
    where = (operator.ptr, operator.col, ids)
    launch(mask_entries, operator.shape[0], len(out), *words, *where, threshold, scale, given, out)
    return out


def _words(key: int, p: float, dtype: torch.dtype) -> tuple[tuple[Any, Any], Any, Any]:
    """The two words of a key, the threshold and the scale, as the CPU kernels take them."""
    import numpy as np

    scale = np.dtype(str(dtype).removeprefix("torch.")).type(1 / (1 - p))
    return (np.uint64(key & _WORD), np.uint64(key >> 32)), np.uint64(_threshold(p)), scale


def _threshold(p: float) -> int:
    """The hashes below it, of 2³², are dropped."""
    return int(p * 2**32)


def _mix(x: Tensor) -> Tensor:
    """ "lowbias32" (Wellons 2018) on 32-bit words held in int64."""
    x = x ^ (x >> 16)
    x = _multiply(x, 0x7FEB352D)
    x = x ^ (x >> 15)
    x = _multiply(x, 0x846CA68B)
    return x ^ (x >> 16)


def _multiply(x: Tensor, factor: int) -> Tensor:
    return x * factor & _WORD  # int64 wraps, and the low 32 bits of a product survive wrapping
