"""Links: which edges may matter most to a node's prediction, by a gradient and by their distance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import CSR
from gpnn.engine import Plan
from gpnn.engine.propagate import Runner
from gpnn.graph import as_graph
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


def rank_links(
    model: NodeModel, data: Data, pipeline: Pipeline, plan: Plan, part: Partition | None, node: int, chosen: int
) -> Links:
    """The pairs of joined nodes within reach of a node, by what a first-order estimate has their deletion cost.

    Args:
        model: trained.
        data: the graph.
        pipeline: the arguments of its schedule.
        plan: that schedule, lowered.
        part: the subgraphs, or None under a schedule that needs none.
        node: the explained node.
        chosen: its class.
    """
    graph = as_graph(data)
    distance = torch.from_numpy(hops_to(graph.in_edges(with_edge=False), node))
    guided = isinstance(model, GPNN) and _can_weigh(model) and not plan.num_virtual
    if guided:
        assert isinstance(model, GPNN)
        src, dst, score = _edge_scores(model, data, pipeline, plan, part, node, chosen)
    else:
        src, dst, score = graph.src, graph.dst, torch.zeros(graph.num_edges)
    reached = distance[dst] >= 0
    src, dst, score = src[reached], dst[reached], score[reached]
    keys, place = (torch.minimum(src, dst) * graph.num_nodes + torch.maximum(src, dst)).unique(return_inverse=True)
    total = torch.zeros(len(keys), dtype=torch.float64).index_add_(0, place, score.double())
    pairs = torch.stack([keys // graph.num_nodes, keys % graph.num_nodes], 1)
    far = torch.full_like(keys, graph.num_nodes).scatter_reduce_(0, place, distance[dst], "amin")
    order = torch.from_numpy(np.lexsort((far.numpy(), -total.numpy())))
    return Links(pairs[order], total[order], guided, distance)


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
        senders = [incoming.index[incoming.ptr[each] : incoming.ptr[each + 1]] for each in front]
        found = np.unique(np.concatenate(senders))
        front = found[distance[found] < 0]
    return distance


def _can_weigh(model: GPNN) -> bool:
    """Whether edges of its cells can have weights with a gradient."""
    cells = model.cell.cells if isinstance(model.cell, CellBank) else [model.cell]
    return all(isinstance(each, Cell) and each.aggregate in ("mean", "sum") for each in cells)


def _edge_scores(
    model: GPNN, data: Data, pipeline: Pipeline, plan: Plan, part: Partition | None, node: int, chosen: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sender, receiver and weight · gradient of each edge, `[E]` each: the gradient is that of the class's lead."""
    soft = make_soft_schedule(
        pipeline.schedule,
        as_graph(data),
        plan.num_rounds,
        options=pipeline.schedule_options,
        normalization=pipeline.normalization,
        self_loops=pipeline.self_loops,
        device=plan.device,
    )
    weight = soft.weight.clone().requires_grad_()
    more = (weight.abs() - soft.weight.abs()).to(soft.degree)  # zero, but its gradient
    soft = replace(soft, weight=weight, degree=soft.degree.index_add(0, soft.receiver, more))
    labels = torch.zeros(plan.num_nodes, dtype=torch.int64) if part is None else part.labels
    labels = labels.to(plan.device)
    inside = (labels[soft.sender] == labels[soft.receiver]).to(model.head.weights[0].dtype)
    lead = _lead(model, data, plan, soft.bind(inside), node, chosen)
    (gradient,) = torch.autograd.grad(lead, weight, allow_unused=True)
    score = torch.zeros_like(weight) if gradient is None else weight * gradient
    return soft.sender.cpu(), soft.receiver.cpu(), score.detach().cpu()


def _lead(model: GPNN, data: Data, plan: Plan, runner: Runner, node: int, chosen: int) -> Tensor:
    """By how much a class leads the next one at a node, before the softmax, which would flatten where it is sure."""
    x, before, training = data.get("x"), model.runner, model.training
    x = None if x is None else x.to(features_device(x, model, plan))
    model.eval()
    model.runner = runner
    try:
        scores = model(x, plan)[node]
    finally:
        model.runner = before
        model.train(training)
    others = scores[torch.arange(len(scores), device=scores.device) != chosen]
    return scores[chosen] - others.max() if len(others) else scores[chosen]
