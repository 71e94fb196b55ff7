"""Links: which edges may matter most to a node's prediction, by a gradient and by their distance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import CSR
from gpnn.engine import Plan
from gpnn.engine.propagate import Runner
from gpnn.graph import as_graph
from gpnn.incremental.rows import distinct, ranges
from gpnn.nn import GPNN
from gpnn.nn.cell import Cell, CellBank
from gpnn.nn.models import NodeModel
from gpnn.nn.soft_schedule import make_soft_schedule
from gpnn.partition import Partition
from gpnn.pipeline import Pipeline
from gpnn.train.evaluate import features_device

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of joined nodes from which messages can reach a node, the most promising first.

    Attributes:
        pairs: the smaller and the larger node of each, `[L, 2]`.
        score: how much of the node's lead each is expected to carry, `[L]`; zeros where there is no gradient.
        guided: whether there is a gradient.
        distance: hops from each node of the graph to the explained one along edges, -1: none leads there, `[N]`.
    """

    pairs: Tensor
    score: Tensor
    guided: bool
    distance: Tensor

    def neighbours(self, node: int) -> Tensor:
        """The other nodes of the pairs, by the sum of their pairs' scores, then by their distance, `[n]`."""
        ends, place = self.pairs.flatten().unique(return_inverse=True)
        score = self.score.new_zeros(len(ends)).index_add_(0, place, self.score.repeat_interleave(2))
        order = np.lexsort((self.distance[ends].numpy(), -score.numpy()))
        found = ends[torch.from_numpy(order)]
        return found[(found != node) & (self.distance[found] >= 0)]


class Linker:
    """The pairs of joined nodes of a graph, to be ranked for one node after the other.

    What does not depend on the node is computed once: the pairs, and where edges can have weights with a gradient, the
    forward pass, of which each node then takes a backward pass.

    Args:
        model: trained.
        data: the graph.
        pipeline: the arguments of its schedule.
        plan: that schedule, lowered.
        part: the subgraphs, or None under a schedule that needs none.
    """

    def __init__(self, model: NodeModel, data: Data, pipeline: Pipeline, plan: Plan, part: Partition | None) -> None:
        self.model, self.data, self.pipeline, self.plan, self.part = model, data, pipeline, plan, part
        self.graph = as_graph(data)
        self.incoming = self.graph.in_edges(with_edge=False)
        self.guided = isinstance(model, GPNN) and _can_weigh(model) and not plan.num_virtual
        src, dst = (self.graph.src, self.graph.dst) if self._weighed is None else self._weighed[:2]
        size = self.graph.num_nodes
        keys, self.place = (torch.minimum(src, dst) * size + torch.maximum(src, dst)).unique(return_inverse=True)
        self.pairs, self.receiver = torch.stack([keys // size, keys % size], 1), dst

    def rank(self, node: int, chosen: int) -> Links:
        """The pairs within reach of a node, by what a first-order estimate has their deletion cost its class."""
        size, number = self.graph.num_nodes, len(self.pairs)
        distance = torch.from_numpy(hops_to(self.incoming, node))
        hops = torch.where(distance < 0, size, distance)[self.receiver]
        far = hops.new_full((number,), size).scatter_reduce_(0, self.place, hops, "amin")
        score = torch.zeros(number, dtype=torch.float64)
        if self._weighed is not None:
            score.index_add_(0, self.place, self._edge_scores(node, chosen))
        reached = (far < size).nonzero().flatten()
        order = reached[torch.from_numpy(np.lexsort((far[reached].numpy(), -score[reached].numpy())))]
        return Links(self.pairs[order], score[order], self.guided, distance)

    def _edge_scores(self, node: int, chosen: int) -> Tensor:
        """Weight · gradient of each edge, `[E]`: the gradient of the class's lead over the next at the node.

        The lead is that before the softmax, which would flatten where it is sure.
        """
        assert self._weighed is not None
        _, _, weight, scores = self._weighed
        own = scores[node]
        others = own[torch.arange(len(own), device=own.device) != chosen]
        lead = own[chosen] - others.max() if len(others) else own[chosen]
        (gradient,) = torch.autograd.grad(lead, weight, allow_unused=True, retain_graph=True)
        return torch.zeros(len(weight)).double() if gradient is None else (weight * gradient).detach().double().cpu()

    @cached_property
    def _weighed(self) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
        """Sender, receiver and weight of each edge, `[E]`, and all scores, which have a gradient to the weights."""
        if not self.guided:
            return None
        model, pipeline, plan = self.model, self.pipeline, self.plan
        assert isinstance(model, GPNN)
        soft = make_soft_schedule(
            pipeline.schedule,
            self.graph,
            plan.num_rounds,
            options=pipeline.schedule_options,
            normalization=pipeline.normalization,
            self_loops=pipeline.self_loops,
            device=plan.device,
        )
        weight = soft.weight.clone().requires_grad_()
        more = (weight.abs() - soft.weight.abs()).to(soft.degree)  # zero, but its gradient
        soft = replace(soft, weight=weight, degree=soft.degree.index_add(0, soft.receiver, more))
        labels = torch.zeros(plan.num_nodes, dtype=torch.int64) if self.part is None else self.part.labels
        labels = labels.to(plan.device)
        inside = (labels[soft.sender] == labels[soft.receiver]).to(model.head.weights[0].dtype)
        return soft.sender.cpu(), soft.receiver.cpu(), weight, self._scores(model, soft.bind(inside))

    def _scores(self, model: GPNN, runner: Runner) -> Tensor:
        x, before, training = self.data.get("x"), model.runner, model.training
        x = None if x is None else x.to(features_device(x, model, self.plan))
        model.eval()
        model.runner = runner
        try:
            return model(x, self.plan)
        finally:
            model.runner = before
            model.train(training)


def hops_to(incoming: CSR, node: int) -> np.ndarray:
    """Hops from each node to one along edges, -1 where none leads there, `[N]` int64.

    >>> from gpnn.graph import Graph
    >>> hops_to(Graph([0, 1], [1, 2], num_nodes=4).in_edges(), 2).tolist()
    [2, 1, 0, -1]
    """
    distance = np.full(len(incoming.ptr) - 1, -1)
    front, hops = np.array([node]), 0
    while len(front):
        distance[front] = hops
        hops += 1
        start, counts = incoming.ptr[front], incoming.ptr[front + 1] - incoming.ptr[front]
        senders = incoming.index[ranges(start, counts)]
        front = distinct(senders[distance[senders] < 0])
    return distance


def _can_weigh(model: GPNN) -> bool:
    """Whether edges of its cells can have weights with a gradient."""
    cells = model.cell.cells if isinstance(model.cell, CellBank) else [model.cell]
    return all(isinstance(each, Cell) and each.aggregate in ("mean", "sum") for each in cells)
