"""Heads for many small graphs: choose a node of each, or score each graph as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from gpnn.nn.parameters import glorot
from gpnn.nn.segments import graph_argmax, graph_log_softmax, graph_sum


class GraphHead(Protocol):
    """From the states of a disjoint union's nodes to an answer a graph."""

    def __call__(self, state: Tensor, annotation: Tensor, ptr: Tensor) -> Tensor:
        """Log-probabilities, from states `[N, d]`, annotations `[N, a]` and where each graph begins, `[G + 1]`."""

    def loss(self, scores: Tensor, answer: Tensor) -> Tensor:
        """The mean negative log-probability of the answers, `[G]`."""

    def choose(self, scores: Tensor, ptr: Tensor) -> Tensor:
        """The most probable answers, `[G]`."""


class NodeSelection(nn.Module):
    """A softmax over the nodes of each graph of g(h, x), g with one tanh layer (Li et al. 2015, Section 3.3).

    Scores are `[N]`, an answer is a node of the union.

    Args:
        state_channels: width of the states, d.
        annotation_channels: width of the annotations, a.
        out_channels: not used: a graph has as many answers as nodes.
        generator: where the weights come from.
    """

    def __init__(
        self, state_channels: int, annotation_channels: int, out_channels: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(glorot(state_channels + annotation_channels, state_channels, generator))
        self.bias = nn.Parameter(torch.zeros(state_channels))
        self.score = nn.Parameter(glorot(state_channels, 1, generator))

    def forward(self, state: Tensor, annotation: Tensor, ptr: Tensor) -> Tensor:
        hidden = torch.addmm(self.bias, torch.cat([state, annotation], dim=1), self.weight).tanh()
        return graph_log_softmax(hidden @ self.score, ptr)[:, 0]

    def loss(self, scores: Tensor, answer: Tensor) -> Tensor:
        return -scores[answer].mean()

    def choose(self, scores: Tensor, ptr: Tensor) -> Tensor:
        return graph_argmax(scores[:, None], ptr)[:, 0]


class GatedSum(nn.Module):
    r"""Scores of each graph from a gated sum over its nodes (Li et al. 2015, equation 7).

    .. math::
        h_G = \tanh\Big(\sum_v \sigma(i(h_v, x_v)) \odot \tanh(j(h_v, x_v))\Big)

    Scores are `[G, C]`, an answer is a class.

    Args:
        state_channels: width of the states, d, and of h_G.
        annotation_channels: width of the annotations, a.
        out_channels: number of classes C.
        generator: where the weights come from.
    """

    def __init__(
        self, state_channels: int, annotation_channels: int, out_channels: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        width = state_channels + annotation_channels
        self.gate = nn.Parameter(glorot(width, state_channels, generator))
        self.gate_bias = nn.Parameter(torch.zeros(state_channels))
        self.value = nn.Parameter(glorot(width, state_channels, generator))
        self.value_bias = nn.Parameter(torch.zeros(state_channels))
        self.weight = nn.Parameter(glorot(state_channels, out_channels, generator))
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, state: Tensor, annotation: Tensor, ptr: Tensor) -> Tensor:
        known = torch.cat([state, annotation], dim=1)
        gate = torch.addmm(self.gate_bias, known, self.gate).sigmoid()
        value = torch.addmm(self.value_bias, known, self.value).tanh()
        whole = graph_sum(gate * value, ptr).tanh()
        return torch.addmm(self.bias, whole, self.weight).log_softmax(dim=1)

    def loss(self, scores: Tensor, answer: Tensor) -> Tensor:
        return nn.functional.nll_loss(scores, answer)

    def choose(self, scores: Tensor, ptr: Tensor) -> Tensor:
        return scores.argmax(dim=1)


GRAPH_HEADS: dict[str, Callable[[int, int, int, torch.Generator], GraphHead]] = {
    "node": NodeSelection,
    "class": GatedSum,
}
