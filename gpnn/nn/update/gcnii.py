"""Initial residual and identity map."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gpnn.engine import Step
from gpnn.nn.layers import glorot


class GCNIIUpdate(nn.Module):
    """h' = ReLU(((1 − β) I + β W) ((1 − α) m + α h₀)), β = log(θ / (t + 1) + 1) in round t (Chen et al. 2020).

    Share it "round" for a W per round, as the authors do.

    Args:
        alpha: weight α of the initial state.
        theta: strength θ of the identity map's decay.
    """

    residual = True

    def __init__(self, channels: int, generator: torch.Generator, alpha: float = 0.1, theta: float = 0.5) -> None:
        super().__init__()
        self.alpha = alpha
        self.theta = theta
        self.weight = nn.Parameter(glorot(channels, channels, generator))

    def start(self, state: Tensor) -> Tensor:
        return state

    def visible(self, working: Tensor) -> Tensor:
        return working

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        assert step.initial is not None
        beta = math.log(self.theta / (step.round + 1) + 1)
        support = torch.lerp(messages.to(step.initial.dtype), step.initial, self.alpha)  # bf16 under autocast
        return torch.addmm(support, support, self.weight, beta=1 - beta, alpha=beta).relu()
