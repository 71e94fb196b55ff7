"""Head: from final states to scores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from gpnn.nn.dropout import Draw, drop_entries
from gpnn.nn.features import FeatureLinear
from gpnn.nn.parameters import glorot


class Head(nn.Module):
    """Zero or more tanh layers and a linear one, over the state and, beside it, the input.

    Args:
        state_channels: width of the state, d.
        out_channels: number of scores, C.
        generator: where the weights come from.
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
        draw: Draw | None = None,
        layer: int = 0,
    ) -> Tensor:
        """The scores, `[N, C]`; entries of the state are dropped with probability `p`."""
        out = torch.addmm(self.biases[0], drop_entries(state, p, draw, layer), self.weights[0])
        if self.beside is not None:
            assert beside is not None
            out = out + self.beside(beside, p, draw, layer + 1)
        for weight, bias in zip(list(self.weights)[1:], list(self.biases)[1:]):
            out = torch.addmm(bias, out.tanh(), weight)
        return out
