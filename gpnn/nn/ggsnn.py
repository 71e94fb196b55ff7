"""GGSNN: questions about many small graphs, answered by one output or by several in order."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gpnn.check import check_choice, check_sizes
from gpnn.engine import Plan, propagate
from gpnn.engine.propagate import Runner
from gpnn.nn.cell import build_cell
from gpnn.nn.graph_head import GRAPH_HEADS
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
