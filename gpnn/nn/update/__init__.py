"""Update functions U: the next state of a node from its state and its aggregated messages.

A working state may hold more than messages are made of: an LSTM's memory stands beside its visible state.
"""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from gpnn.engine import Step
from gpnn.nn.update.cells import (
    BatchResidualUpdate,
    GCNIIUpdate,
    GRUUpdate,
    LinearUpdate,
    LSTMUpdate,
    MaxPlusUpdate,
    MLPUpdate,
    ResidualUpdate,
)


class Update(Protocol):
    """An update function."""

    @property
    def residual(self) -> bool:
        """Whether it reads `step.initial`."""

    @property
    def local(self) -> bool:
        """Whether a row's next state follows from its own state and messages alone."""

    def start(self, state: Tensor) -> Tensor:
        """The working state, `[N, s]`, of nodes whose visible state is `state`, `[N, d]`."""

    def visible(self, working: Tensor) -> Tensor:
        """The visible state, `[N, d]`, of a working state."""

    def __call__(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        """The next working state, `[n, s]`, of nodes in the working state `state` that received `messages`."""


# Each is made from the width d of states and messages and a generator of weights; further arguments are its options.
UPDATES: dict[str, Callable[..., Update]] = {
    "gru": GRUUpdate,
    "lstm": LSTMUpdate,
    "mlp": MLPUpdate,
    "linear": LinearUpdate,
    "gcnii": GCNIIUpdate,
    "max_plus": MaxPlusUpdate,
    "residual": ResidualUpdate,
    "batch_residual": BatchResidualUpdate,
}

__all__ = [
    "UPDATES",
    "BatchResidualUpdate",
    "GCNIIUpdate",
    "GRUUpdate",
    "LSTMUpdate",
    "LinearUpdate",
    "MLPUpdate",
    "MaxPlusUpdate",
    "ResidualUpdate",
    "Update",
]
