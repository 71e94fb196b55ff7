"""How exact products of float32 numbers are, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


@contextmanager
def float32_products(precision: str | None) -> Iterator[None]:
    """Inside, products may round their factors as :func:`torch.set_float32_matmul_precision` has it; None: as before.

    >>> with float32_products("high"):
    ...     torch.get_float32_matmul_precision()
    'high'
    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    if precision is None:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@cache
def has_bf16_products() -> bool:
    """Whether this CPU multiplies bfloat16 numbers itself; where it does not, float32 products are the faster ones."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
