"""Long short-term memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gpnn.engine import Step
from gpnn.nn.layers import glorot


class LSTMUpdate(nn.Module):
    """Hochreiter and Schmidhuber's unit; the working state is the visible state and the memory side by side, `[N, 2d]`.

    Weights are laid out as in :class:`torch.nn.LSTMCell`.

    Args:
        forget_bias: start of the forget gate's bias.
    """

    residual = False

    def __init__(self, channels: int, generator: torch.Generator, forget_bias: float = 1.0) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.cat([glorot(channels, channels, generator) for _ in range(4)]))
        self.weight_hh = nn.Parameter(torch.cat([glorot(channels, channels, generator) for _ in range(4)]))
        bias = torch.zeros(4 * channels)
        bias[channels : 2 * channels] = forget_bias
        self.bias_ih = nn.Parameter(bias)
        self.bias_hh = nn.Parameter(torch.zeros(4 * channels))

    def start(self, state: Tensor) -> Tensor:
        return torch.cat([state, torch.zeros_like(state)], dim=1)

    def visible(self, working: Tensor) -> Tensor:
        return working[:, : working.shape[1] // 2]

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        hidden, memory = state.chunk(2, dim=1)
        parameters = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return torch.cat(torch.lstm_cell(messages, (hidden, memory), *parameters), dim=1)
