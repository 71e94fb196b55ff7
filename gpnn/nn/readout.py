"""Readouts: one state a node from its states after each round."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class LastState(nn.Module):
    """The state after the last round."""

    collects = False

    def forward(self, states: list[Tensor]) -> Tensor:
        return states[-1]


class MeanState(nn.Module):
    """The average of the initial state and the states after each round (GRAND's propagation)."""

    collects = True

    def forward(self, states: list[Tensor]) -> Tensor:
        total = states[0]
        for state in states[1:]:
            total = total + state
        return total / len(states)


class LearnedState(nn.Module):
    """Σ γₜ hₜ with learned γ (GPR-GNN, Chien et al. 2021), started as α(1 − α)ᵗ, the rest on the last state.

    Negative γ let neighbours be told apart, which serves graphs whose neighbours differ.

    Args:
        num_rounds: number of rounds T, which must be given; γ has T + 1 entries, the first for the initial state.
        alpha: α of the start.
    """

    collects = True

    def __init__(self, num_rounds: int | None, alpha: float = 0.1) -> None:
        super().__init__()
        if num_rounds is None:
            raise ValueError("The readout 'learned' needs `num_rounds`. Got None.")
        gamma = alpha * (1 - alpha) ** torch.arange(num_rounds + 1.0)
        gamma[-1] = (1 - alpha) ** num_rounds
        self.gamma = nn.Parameter(gamma)

    def forward(self, states: list[Tensor]) -> Tensor:
        if len(states) != self.gamma.numel():
            expected, got = self.gamma.numel() - 1, len(states) - 1
            raise ValueError(f"The plan must have {expected} rounds, as the learned readout has. Got {got}.")
        total = self.gamma[0] * states[0]
        for weight, state in zip(self.gamma[1:], states[1:]):
            total = total + weight * state
        return total


READOUTS: dict[str, Callable[[int | None], nn.Module]] = {
    "last": lambda num_rounds: LastState(),
    "mean": lambda num_rounds: MeanState(),
    "learned": LearnedState,
}
