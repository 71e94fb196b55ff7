"""Progress: how far a training is, and the best weights it has seen; all that a checkpoint must hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass
class Progress:
    """The state of a training beside its weights and its optimiser.

    Attributes:
        epoch: epochs done.
        best_epoch: the epoch of the best validation, 0 before the first.
        best_value: its metric; higher is better.
        best_loss: its loss, which breaks ties.
        checks_since_best: validations since then.
        seconds: time spent, over all resumed parts.
        history: one record per epoch.
        best_weights: the model's state at the best epoch.
    """

    epoch: int = 0
    best_epoch: int = 0
    best_value: float = -math.inf
    best_loss: float = math.inf
    checks_since_best: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_weights: dict[str, Tensor] = field(default_factory=dict)

    def check(self, model: nn.Module, value: float, loss: float) -> bool:
        """Count one validation and keep the weights if it is the best so far; return whether it is.

        A value or loss that is not a number is never the best.
        """
        better = not math.isnan(loss) and (
            value > self.best_value or (value == self.best_value and loss < self.best_loss)
        )
        if not better:
            self.checks_since_best += 1
            return False
        self.best_epoch, self.best_value, self.best_loss, self.checks_since_best = self.epoch, value, loss, 0
        self.best_weights = copy_weights(model)
        return True


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the model's state that later steps do not change."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
