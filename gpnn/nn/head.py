"""Readout and head: from the states after each round to one state per node, and to its scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from gpnn.nn.layers import FeatureLinear, MaskKey, drop_entries, glorot


class Head(nn.Module):
    """Zero or more tanh layers and a linear one, over the state and, beside it, the input.

    Args:
        state_channels: width of the state, d.
        out_channels: number of scores, C.
        hidden: widths of the tanh layers.
        beside: width of what is concatenated to the state, 0 for nothing.
    """

    def __init__(
        self,
        state_channels: int,
        out_channels: int,
        generator: torch.Generator,
        *,
        hidden: Sequence[int] = (),
        beside: int = 0,
    ) -> None:
        super().__init__()
        widths = [state_channels, *hidden, out_channels]
        self.weights = nn.ParameterList(glorot(a, b, generator) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        self.beside = FeatureLinear(beside, widths[1], generator, bias=False) if beside else None

    def forward(
        self,
        state: Tensor,
        beside: Tensor | None = None,
        p: float = 0.0,
        key: MaskKey | None = None,
        layer: int = 0,
    ) -> Tensor:
        """The scores, `[N, C]`; entries of the state are dropped with probability `p`."""
        out = torch.addmm(self.biases[0], drop_entries(state, p, key, layer), self.weights[0])
        if self.beside is not None:
            assert beside is not None
            out = out + self.beside(beside, p, key, layer + 1)
        for weight, bias in zip(list(self.weights)[1:], list(self.biases)[1:]):
            out = torch.addmm(bias, out.tanh(), weight)
        return out


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


class LargestState(nn.Module):
    """The largest of the states after each round, channel by channel (jumping knowledge, Xu et al. 2018)."""

    collects = True

    def forward(self, states: list[Tensor]) -> Tensor:
        return torch.stack(states[1:]).amax(0)


class JoinedState(nn.Module):
    """The states after each round side by side, `[N, T · d]` (jumping knowledge, Xu et al. 2018).

    Args:
        num_rounds: number of rounds T, which must be given.
    """

    collects = True

    def __init__(self, num_rounds: int | None) -> None:
        super().__init__()
        if num_rounds is None:
            raise ValueError("The readout 'concat' needs `num_rounds`. Got None.")
        self.num_rounds = num_rounds

    def forward(self, states: list[Tensor]) -> Tensor:
        if len(states) != self.num_rounds + 1:
            raise ValueError(f"The plan must have {self.num_rounds} rounds, as the head has. Got {len(states) - 1}.")
        return torch.cat(states[1:], dim=1)


class LearnedState(nn.Module):
    """Σ γₜ hₜ with learned γ (GPR-GNN, Chien et al. 2021), started as α(1 − α)ᵗ, the rest on the last state.

    Negative γ distinguish a node from its neighbours, which serves graphs whose neighbours differ.

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
    "max": lambda num_rounds: LargestState(),
    "concat": JoinedState,
    "learned": LearnedState,
}
