"""Hooks of parameters, which fire once per backward pass, however many blocks it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor


@contextmanager
def without_hooks(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Differentiate blocks without calling the hooks of `tensors`; autograd calls them with the sum that is returned.

    A hook that is not linear (a clamp) would give each block's share another gradient than their sum.
    """
    hooked = {tensor: tensor._backward_hooks for tensor in tensors if tensor.is_leaf and tensor._backward_hooks}
    for tensor in hooked:
        tensor._backward_hooks = None
    try:
        yield
    finally:
        for tensor, hooks in hooked.items():
            tensor._backward_hooks = hooks
