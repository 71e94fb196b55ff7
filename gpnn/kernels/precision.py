"""How exact products of float32 numbers are, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
