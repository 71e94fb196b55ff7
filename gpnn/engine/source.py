"""Source: where the states before the first round come from, and where their gradient goes."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from gpnn.engine.rows import read_rows
from gpnn.engine.saved_states import SavedState
from gpnn.pages import empty_like


class Source(SavedState, Protocol):
    """The states before the first round, in plan order, `[N + V, s]`.

    A source that computes its states from something smaller, or from what lies elsewhere, need not keep them: the
    backward pass asks for them again. It serves as the saved state of the first round.
    """

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that gradients flow to."""

    @property
    def kept(self) -> bool:
        """Whether the states themselves are what the caller gave, and keeps."""

    def new_state(self) -> Tensor:
        """An uninitialised state, `[N + V, s]`, on the device that computes."""

    def gradients(self, grad: Tensor) -> list[Tensor | None]:
        """The gradients of `tensors`, given that of the states, `[N + V, s]`."""


class GivenState:
    """A state that the caller holds.

    Args:
        state: `[N + V, s]`.
    """

    kept = True

    def __init__(self, state: Tensor) -> None:
        self.state = state
        self._like = state.detach()[:1]
        self._num_rows = len(state)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.state,)

    def new_state(self) -> Tensor:
        return empty_like(self._like.expand(self._num_rows, -1))

    def release(self) -> None:
        """Hold it no longer: it is stored elsewhere."""
        self.state, self._like = self.state.detach()[:0], self._like.clone()

    def fetch(self) -> None:
        """Nothing: it is here."""

    def load(self, into: Tensor) -> None:
        into.copy_(self.state)

    def read(self, rows: Tensor | slice) -> Tensor:
        return read_rows(self.state, rows)

    def peek(self) -> Tensor:
        return self.state

    def drop(self) -> None:
        """Nothing: it is the caller's."""

    def gradients(self, grad: Tensor) -> list[Tensor | None]:
        return [grad]
