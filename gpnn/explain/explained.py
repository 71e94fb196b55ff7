"""Explained: a model and a graph, and what it predicts of a node when something is deleted."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import csr_tensor, scale_rows, slice_rows
from gpnn.engine import Plan
from gpnn.explain.links import Linker
from gpnn.graph import Graph, as_graph
from gpnn.incremental import LiveGraph, Predictor
from gpnn.incremental.variants import Deletions, predict_variants
from gpnn.nn.models import NodeModel
from gpnn.partition import Partition
from gpnn.pipeline import Pipeline
from gpnn.train.evaluate import predict_outputs
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
        return Linker(self.model, self.data, self.pipeline, self.plan, self.subgraphs)

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
        x = x if x is None or not columns else _without_columns(x, node, columns, self.scaled)
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


def _without_columns(x: Tensor, node: int, columns: list[int], scaled: bool) -> Tensor:
    """The features with some entries of a row 0, `[N, F]`, dense or sparse CSR as they came."""
    row = row_of(x, node).clone()
    row[columns] = 0
    row = scale_rows(row[None])[0] if scaled else row
    if x.layout == torch.strided:
        x = x.clone()
        x[node] = row
        return x
    ptr, index = x.crow_indices(), x.col_indices()
    entries, values = slice(int(ptr[node]), int(ptr[node + 1])), x.values().clone()
    values[entries] = row[index[entries].long()]
    return csr_tensor(np.asarray(ptr), np.asarray(index), values.numpy(), (x.shape[0], x.shape[1]))
