"""Explained: a model and a graph, and what it predicts of a node when something is deleted; which edges may matter."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import CSR
from gpnn.data.features import csr_tensor, scale_rows, slice_rows
from gpnn.engine import Plan
from gpnn.engine.propagate import Runner
from gpnn.graph import Graph, as_graph
from gpnn.incremental import LiveGraph, Predictor
from gpnn.incremental.rows import distinct, ranges
from gpnn.incremental.variants import Deletions, predict_variants
from gpnn.nn import GPNN, NodeModel
from gpnn.nn.cell import Cell, CellBank
from gpnn.nn.soft_schedule import make_soft_schedule
from gpnn.partition import Partition
from gpnn.pipeline import Pipeline
from gpnn.train.evaluate import features_device, predict_outputs
from gpnn.train.task import Prediction, Task

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class Explained:
    """A trained model and the graph that it predicts on.

    Attributes:
        model: trained.
        data: the graph, as the model takes it.
        pipeline: the arguments of its schedule.
        task: what the outputs mean.
        partition: the subgraphs, which deletions leave as they are; None: the graph is divided as the pipeline has it.
        precision: as of :class:`gpnn.train.Recipe`.
        weight: in a blend.
        scaled: whether rows of features sum to one, as they do again without a column.
    """

    model: NodeModel
    data: Data
    pipeline: Pipeline
    task: Task
    partition: Partition | None = None
    precision: str = "float32"
    weight: float = 1.0
    scaled: bool = False

    @cached_property
    def subgraphs(self) -> Partition | None:
        """The partition, made where none was given and the schedule needs one."""
        return self.pipeline.divide_again(self.data) if self.partition is None else self.partition

    @cached_property
    def graph(self) -> Graph:
        return as_graph(self.data)

    @cached_property
    def plan(self) -> Plan:
        """The schedule of the graph as it is."""
        return self.pipeline.lower(self.data, self.subgraphs)

    @cached_property
    def linker(self) -> Linker:
        """What ranks edges by a gradient."""
        return Linker(self.model, self.data, self.pipeline, self.plan, self.subgraphs, self.task.name)

    @property
    def local(self) -> bool:
        """Whether a deletion computes only what it changes; else it predicts the whole graph."""
        return self._predictor is not None

    def predict(self, node: int, deletions: Deletions) -> Prediction:
        """The outputs of a node without each of these, `[V, C]`, float64."""
        if self._predictor is not None:
            found = predict_variants(self._predictor, node, deletions, scaled=self.scaled)
        else:
            things = np.stack(deletions[1:4], 1)
            lacking = [things[deletions.variant == each].tolist() for each in range(deletions.number)]
            found = torch.stack([self._predict_whole(node, each) for each in lacking])
        return Prediction(self.weight, self.task, found.double())

    @cached_property
    def _predictor(self) -> Predictor | None:
        """What computes only what differs; None where all must be computed."""
        labels = None if self.subgraphs is None else self.subgraphs.labels.numpy()
        ids = [str(row) for row in range(self.graph.num_nodes)]
        graph = LiveGraph(self.graph, self.data.get("x"), ids, labels=labels)
        predictor = Predictor(self.model, graph, self.pipeline, precision=self.precision)
        if not predictor.whole:
            predictor.predict()
        return None if predictor.tape is None else predictor

    def _predict_whole(self, node: int, lacking: list[list[int]]) -> Tensor:
        x, graph, plan = self.data.get("x"), self.graph, self.plan
        columns = [column for *_, column in lacking if column >= 0]
        if x is not None and columns:
            x = _without_columns(x, node, columns, self.scaled, getattr(self.model, "feature_mean", None))
        for one, other, _ in lacking:
            graph = graph if one < 0 else graph.select_edges(~_joins(graph, one, other))
        if graph is not self.graph:
            data = copy(self.data)
            data.graph = graph
            plan = self.pipeline.lower(data, self.subgraphs)
        return predict_outputs(self.model, x, plan, precision=self.precision)[node]


def _joins(graph: Graph, one: int, other: int) -> Tensor:
    """Which edges join two nodes, either way, `[E]`; those of the first where the other is -1."""
    if other < 0:
        return (graph.src == one) | (graph.dst == one)
    return ((graph.src == one) & (graph.dst == other)) | ((graph.src == other) & (graph.dst == one))


def row_of(x: Tensor, node: int) -> Tensor:
    """The features of a node, dense, `[F]`."""
    row = slice_rows(x, slice(node, node + 1))
    return (row if row.layout == torch.strided else row.to_dense())[0]


def _without_columns(x: Tensor, node: int, columns: list[int], scaled: bool, mean: Tensor | None) -> Tensor:
    """The features with some entries of a row 0, or the mean, `[N, F]`, dense or sparse CSR as they came."""
    row = row_of(x, node).clone()
    row[columns] = 0 if mean is None else mean[columns].to(row)
    row = scale_rows(row[None])[0] if scaled else row
    if x.layout == torch.strided:
        x = x.clone()
        x[node] = row
        return x
    ptr, index = x.crow_indices(), x.col_indices()
    entries, values = slice(int(ptr[node]), int(ptr[node + 1])), x.values().clone()
    values[entries] = row[index[entries].long()]
    return csr_tensor(np.asarray(ptr), np.asarray(index), values.numpy(), (x.shape[0], x.shape[1]))


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
        task: "classification", or "multi_label" or "regression", whose outputs do not compete.
    """

    def __init__(
        self,
        model: NodeModel,
        data: Data,
        pipeline: Pipeline,
        plan: Plan,
        part: Partition | None,
        task: str = "classification",
    ) -> None:
        self.model, self.data, self.pipeline, self.plan, self.part = model, data, pipeline, plan, part
        self.task = task
        self.graph = as_graph(data)
        self.incoming = self.graph.in_edges(with_edge=False)
        self.guided = isinstance(model, GPNN) and _can_weigh(model) and not plan.num_virtual
        src, dst = (self.graph.src, self.graph.dst) if self._weighed is None else self._weighed[:2]
        size = self.graph.num_nodes
        keys, self.place = (torch.minimum(src, dst) * size + torch.maximum(src, dst)).unique(return_inverse=True)
        self.pairs, self.receiver = torch.stack([keys // size, keys % size], 1), dst

    def rank(self, node: int, chosen: int) -> Links:
        """The pairs within reach of a node, by what a first-order estimate has their deletion cost its class.

        Of numbers, by how much it has their deletion move the number, either way.
        """
        size, number = self.graph.num_nodes, len(self.pairs)
        distance = torch.from_numpy(hops_to(self.incoming, node))
        hops = torch.where(distance < 0, size, distance)[self.receiver]
        far = hops.new_full((number,), size).scatter_reduce_(0, self.place, hops, "amin")
        score = torch.zeros(number, dtype=torch.float64)
        if self._weighed is not None:
            score.index_add_(0, self.place, self._edge_scores(node, chosen))
            score = score.abs() if self.task == "regression" else score
        reached = (far < size).nonzero().flatten()
        order = reached[torch.from_numpy(np.lexsort((far[reached].numpy(), -score[reached].numpy())))]
        return Links(self.pairs[order], score[order], self.guided, distance)

    def _edge_scores(self, node: int, chosen: int) -> Tensor:
        """Weight · gradient of each edge, `[E]`: the gradient of the class's lead over the next at the node.

        The lead is that before the softmax, which would flatten where it is sure; of several labels it is the score of
        the label, of numbers the number.
        """
        assert self._weighed is not None
        _, _, weight, scores = self._weighed
        own = scores[node]
        others = own[torch.arange(len(own), device=own.device) != chosen]
        lead = own[chosen] - others.max() if self.task == "classification" and len(others) else own[chosen]
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
