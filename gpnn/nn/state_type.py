"""The type that states are propagated in, where it is not that of the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_state_type: ContextVar[torch.dtype | None] = ContextVar("state_type", default=None)


@contextmanager
def states_in(dtype: torch.dtype | None) -> Iterator[None]:
    """Inside, models propagate states and messages in `dtype`; None: in the type of their parameters.

    >>> with states_in(torch.bfloat16):
    ...     state_type()
    torch.bfloat16
    """
    token = _state_type.set(dtype)
    try:
        yield
    finally:
        _state_type.reset(token)


def state_type() -> torch.dtype | None:
    """The type that states are propagated in, or None: that of the parameters."""
    return _state_type.get()
