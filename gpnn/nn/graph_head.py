"""Heads for many small graphs: choose a node of each, or score each graph as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from gpnn.nn.layers import glorot


class GraphHead(Protocol):
    """From the states of a disjoint union's nodes to an answer per graph."""

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


def graph_of_node(ptr: Tensor) -> Tensor:
    """The graph of each node, `[N]`, from where each graph's nodes begin, `[G + 1]`."""
    sizes = ptr.diff()
    return torch.repeat_interleave(torch.arange(len(sizes), device=ptr.device), sizes)


def graph_sum(values: Tensor, ptr: Tensor) -> Tensor:
    """The sum over the nodes of each graph, `[G, d]`, of `values`, `[N, d]`.

    >>> graph_sum(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0, 2, 3])).tolist()
    [[3.0], [4.0]]
    """
    return values.new_zeros(len(ptr) - 1, *values.shape[1:]).index_add(0, graph_of_node(ptr), values)


def graph_log_softmax(scores: Tensor, ptr: Tensor) -> Tensor:
    """The logarithm of the softmax over the nodes of each graph, `[N, k]`, of `scores`, `[N, k]`.

    >>> graph_log_softmax(torch.zeros(3, 1), torch.tensor([0, 2, 3])).exp().flatten().tolist()
    [0.5, 0.5, 1.0]
    """
    graph = graph_of_node(ptr)
    index = graph[:, None].expand_as(scores)
    shape = (len(ptr) - 1, scores.shape[1])
    largest = scores.new_zeros(shape).scatter_reduce(0, index, scores.detach(), "amax", include_self=False)
    shifted = scores - largest[graph]
    return shifted - graph_sum(shifted.exp(), ptr).log()[graph]


def graph_argmax(scores: Tensor, ptr: Tensor) -> Tensor:
    """The node with the highest score in each graph, the first of equals, `[G, k]`; every graph must have a node.

    >>> graph_argmax(torch.tensor([[1.0], [3.0], [2.0]]), torch.tensor([0, 2, 3])).flatten().tolist()
    [1, 2]
    """
    graph = graph_of_node(ptr)
    index = graph[:, None].expand_as(scores)
    shape = (len(ptr) - 1, scores.shape[1])
    largest = scores.new_zeros(shape).scatter_reduce(0, index, scores.detach(), "amax", include_self=False)
    nodes = torch.arange(len(graph), device=ptr.device)[:, None].expand_as(scores)
    loses = scores < largest[graph]
    candidates = nodes.masked_fill(loses, len(graph))
    return candidates.new_zeros(shape).scatter_reduce(0, index, candidates, "amin", include_self=False)
