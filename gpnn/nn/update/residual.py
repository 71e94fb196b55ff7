"""Residual convolution."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from gpnn.engine import Step
from gpnn.nn.update.mlp import MLPUpdate


class ResidualUpdate(MLPUpdate):
    """h' = h + ReLU(W₁ n(h) + W₂ m + b), where n standardises each node's state, and messages are of such states.

    A graph convolution behind a layer normalisation, inside a residual connection (Li et al. 2020): the form in which
    networks of many layers train. Share it "round" for a convolution per round. A node's result follows from its
    own state and its messages alone, unlike under batch normalisation.
    """

    def visible(self, working: Tensor) -> Tensor:
        return layer_norm(working, working.shape[1:])

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        own = torch.addmm(self.bias, self.visible(state), self.weight_state)
        return state + torch.addmm(own, messages, self.weight_message).relu()
