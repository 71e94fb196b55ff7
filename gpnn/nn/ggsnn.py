"""GGSNN: questions about many small graphs, answered by one output or by several in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from gpnn.check import check_choice, check_sizes
from gpnn.engine import Plan, propagate
from gpnn.engine.propagate import Runner
from gpnn.nn.cell import build_cell
from gpnn.nn.layers import glorot


class GGSNN(nn.Module):
    """A gated graph sequence neural network (Li et al. 2015, Section 4) over a disjoint union of small graphs.

    Annotations, padded with zeros, are the initial states; a GRU with summed linear messages, one map per edge type,
    propagates them under the plan; a head reads the answer off the final states. For several outputs in order a
    second network predicts the annotations of the next output, from which propagation starts anew; the outputs share
    the cell and the head, and nothing but the answers is supervised. With one output it is GGNN.

    Args:
        in_channels: width of the annotations, a, at most the states'.
        hidden_channels: width of the states, d.
        out_channels: number of classes C; not used by the output "node".
        output: what an answer is: "node", a node of each graph, or "class", a class of each graph.
        num_outputs: how many answers each graph has, K.
        num_edge_types: number of edge types of the graphs; both directions of an edge are types of their own.
        runner: how the plan is run; see :func:`gpnn.engine.propagate`.
        seed: where the parameters start from.

    Raises:
        ValueError: naming the argument, its choices or bounds, and the value.

    >>> import gpnn
    >>> union, ptr = gpnn.Graph.union([gpnn.Graph([0], [1], 2), gpnn.Graph([0, 2], [1, 1], 3)])
    >>> plan = gpnn.lower(union, gpnn.schedule.synchronous(union, rounds=3))
    >>> model = gpnn.nn.GGSNN(1, 4, output="node")
    >>> (scores,) = model(torch.ones(5, 1), plan, ptr)
    >>> [round(part.exp().sum().item(), 4) for part in scores.split([2, 3])]  # one distribution per graph
    [1.0, 1.0]
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int = 1,
        *,
        output: str = "class",
        num_outputs: int = 1,
        num_edge_types: int = 1,
        runner: str | Runner | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_choice("output", output, GRAPH_HEADS)
        check_sizes(out_channels=out_channels, num_outputs=num_outputs, num_edge_types=num_edge_types)
        if not 1 <= in_channels <= hidden_channels:
            raise ValueError(f"`in_channels` must be from 1 to the {hidden_channels} of the states. Got {in_channels}.")
        generator = torch.Generator().manual_seed(seed)
        self.num_outputs, self.hidden_channels, self.runner = num_outputs, hidden_channels, runner
        self.cell = build_cell("linear", "gru", "sum", {"update_bias": 0.0}, hidden_channels, num_edge_types, generator)
        self.head = GRAPH_HEADS[output](hidden_channels, in_channels, out_channels, generator)
        self.annotate = nn.Parameter(glorot(hidden_channels + in_channels, in_channels, generator))
        self.annotate_bias = nn.Parameter(torch.zeros(in_channels))
        self.annotate.requires_grad_(num_outputs > 1)
        self.annotate_bias.requires_grad_(num_outputs > 1)

    def forward(self, x: Tensor, plan: Plan, ptr: Tensor) -> list[Tensor]:
        """The log-probabilities of each output in order: `[N]` each for nodes, `[G, C]` each for classes.

        Args:
            x: annotations, `[N, a]`.
            plan: the union's schedule, lowered; its rounds are the propagation steps T.
            ptr: where each graph's nodes begin, `[G + 1]`.
        """
        if int(ptr[-1]) != plan.num_nodes:
            raise ValueError(f"`ptr` must end at the {plan.num_nodes} nodes of the plan. Got {int(ptr[-1])}.")
        outputs = []
        for number in range(self.num_outputs):
            start = nn.functional.pad(x, (0, self.hidden_channels - x.shape[1]))
            state = propagate(self.cell, plan, start, runner=self.runner)
            assert isinstance(state, Tensor)
            outputs.append(self.head(state, x, ptr))
            if number + 1 < self.num_outputs:
                x = torch.addmm(self.annotate_bias, torch.cat([state, x], dim=1), self.annotate).sigmoid()
        return outputs

    def loss(self, outputs: list[Tensor], answer: Tensor) -> Tensor:
        """The mean negative log-probability of the answers, `[G]` or `[G, K]`, over graphs, summed over outputs."""
        answers = answer.view(len(answer), -1).unbind(1)
        return torch.stack([self.head.loss(scores, given) for scores, given in zip(outputs, answers)]).sum()

    def choose(self, outputs: list[Tensor], ptr: Tensor) -> Tensor:
        """The most probable answers, `[G, K]`."""
        return torch.stack([self.head.choose(scores, ptr) for scores in outputs], dim=1)


def mark_questions(x: Tensor, question_type: Tensor, batch: Tensor, num_types: int) -> Tensor:
    """Annotations that also hold what is asked, `[N, a · Q]`: a mark stands in the column of its question's type.

    Args:
        x: marks of a question's arguments, `[N, a]`.
        question_type: type of each graph's question, `[G]`.
        batch: graph of each node, `[N]`.
        num_types: number of question types Q.

    >>> mark_questions(torch.tensor([[1.0], [0.0], [1.0]]), torch.tensor([1, 0]), torch.tensor([0, 0, 1]), 2).tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    kind = nn.functional.one_hot(question_type, num_types)[batch]  # [N, Q]
    return (x[:, :, None] * kind[:, None, :]).flatten(1)


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
    shifted = scores - _reduce(scores.detach(), ptr, "amax")[graph]
    return shifted - graph_sum(shifted.exp(), ptr).log()[graph]


def graph_argmax(scores: Tensor, ptr: Tensor) -> Tensor:
    """The node with the highest score in each graph, the first of equals, `[G, k]`; every graph must have a node.

    >>> graph_argmax(torch.tensor([[1.0], [3.0], [2.0]]), torch.tensor([0, 2, 3])).flatten().tolist()
    [1, 2]
    """
    graph = graph_of_node(ptr)
    nodes = torch.arange(len(graph), device=ptr.device)[:, None].expand_as(scores)
    loses = scores < _reduce(scores.detach(), ptr, "amax")[graph]
    return _reduce(nodes.masked_fill(loses, len(graph)), ptr, "amin")


def _reduce(values: Tensor, ptr: Tensor, how: str) -> Tensor:
    """The reduction over the nodes of each graph, `[G, k]`, of `values`, `[N, k]`."""
    index = graph_of_node(ptr)[:, None].expand_as(values)
    return values.new_zeros(len(ptr) - 1, values.shape[1]).scatter_reduce(0, index, values, how, include_self=False)
