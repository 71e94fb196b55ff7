"""Boundary: a state at the start of a round, kept for the backward pass in memory, in bf16, or on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from gpnn.storage.tensors import map_tensor


class Kept(Protocol):
    """A state that the backward pass comes back to."""

    def load(self, into: Tensor) -> None:
        """Copy the state into `into`, `[N, s]`."""

    def drop(self) -> None:
        """Say that it will not be loaded again."""


class Boundary:
    """A stored state.

    Args:
        state: the state to keep, `[N, s]`.
        dtype: the type to store it in, or None: its own.
        device: where to store it, or None: where it is.
        folder: a folder for a memory-mapped file that holds it, or None: memory.
        copy: whether `state` will be overwritten, so that even an unchanged form must be copied.
    """

    def __init__(
        self,
        state: Tensor,
        dtype: torch.dtype | None,
        device: str | None,
        folder: Path | str | None,
        *,
        copy: bool,
    ) -> None:
        stored = state.to(device=device or state.device, dtype=dtype or state.dtype, copy=copy)
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            stored = map_tensor(stored, folder)
        self._stored = stored

    def load(self, into: Tensor) -> None:
        """Copy the state into `into`, `[N, s]`."""
        into.copy_(self._stored)

    def drop(self) -> None:
        """Nothing: a second backward pass may come."""
