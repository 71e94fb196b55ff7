"""Encoder: from features to initial states."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from gpnn.nn.dropout import Draw, drop_entries
from gpnn.nn.features import FeatureLinear
from gpnn.nn.parameters import glorot

INPUT_LAYER, HIDDEN_LAYER = 0, 300  # layers of the random masks; hidden layers count on from theirs


class Encoder(nn.Module):
    """Features to states: a sparse-aware linear map, through ReLU layers where asked for.

    Args:
        in_channels: number of features F.
        hidden: widths of the ReLU layers.
        out_channels: width of the states, d.
        generator: where the weights come from.
    """

    def __init__(self, in_channels: int, hidden: Sequence[int], out_channels: int, generator: torch.Generator) -> None:
        super().__init__()
        widths = [*hidden, out_channels]
        self.first = FeatureLinear(in_channels, widths[0], generator)
        self.weights = nn.ParameterList(glorot(a, b, generator) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])

    def forward(self, x: Tensor, input_dropout: float, dropout: float, draw: Draw | None) -> Tensor:
        """The states, `[N, d]`."""
        state = self.first(x, input_dropout, draw, INPUT_LAYER)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            hidden = drop_entries(state.relu(), dropout, draw, HIDDEN_LAYER + number)
            state = torch.addmm(bias, hidden, weight)
        return state
