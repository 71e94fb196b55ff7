"""Fully connected update."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gpnn.engine import Step
from gpnn.nn.layers import glorot


class MLPUpdate(nn.Module):
    """h' = tanh(W₁ h + W₂ m + b)."""

    residual = False

    def __init__(self, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight_state = nn.Parameter(glorot(channels, channels, generator))
        self.weight_message = nn.Parameter(glorot(channels, channels, generator))
        self.bias = nn.Parameter(torch.zeros(channels))

    def start(self, state: Tensor) -> Tensor:
        return state

    def visible(self, working: Tensor) -> Tensor:
        return working

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        own = torch.addmm(self.bias, state, self.weight_state)
        return torch.addmm(own, messages, self.weight_message).tanh()
