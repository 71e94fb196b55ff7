"""explain_node: the edges, neighbours and columns that carried a prediction, each by what its deletion changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_count
from gpnn.data.features import csr_tensor, scale_rows, slice_rows
from gpnn.engine import Plan
from gpnn.explain.links import Links, rank_links
from gpnn.graph import Graph, as_graph
from gpnn.nn.models import NodeModel
from gpnn.partition import Partition
from gpnn.pipeline import Pipeline
from gpnn.run.known_nodes import find_nodes, node_ids
from gpnn.train.evaluate import predict_outputs
from gpnn.train.task import Classification, Prediction, Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

OWN = 10  # of the node's own edges, and of its direct neighbours, that are deleted for each one listed
GUIDED, UNGUIDED = 3, 10  # of those further away, where a gradient proposes them, and where none does
MOST_COLUMNS = 100  # of a node that are deleted, those of the largest values


@dataclass(frozen=True)
class Explanation:
    """Why a node got its class: what carried it, the most important first.

    An effect is the probability of the predicted class less that without the thing, all else being equal. Only what
    lowers the probability by being deleted is listed.

    Attributes:
        node: the user's id of it.
        prediction: its most likely class.
        probability: of that class.
        edges: source, target and effect. Edges that join the same two nodes, either way, are deleted together.
        neighbours: nodes near or far, and the effect of deleting all edges of each.
        columns: names, or numbers, of the node's own features, and the effect of setting each to 0.
    """

    node: Any
    prediction: Any
    probability: float
    edges: tuple[tuple[Any, Any, float], ...]
    neighbours: tuple[tuple[Any, float], ...]
    columns: tuple[tuple[Any, float], ...]


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


def explain_node(
    members: Sequence[Explained],
    node: int,
    *,
    task: Task,
    classes: Sequence[Any] | None = None,
    num: int = 10,
) -> Explanation:
    """What carried the prediction of a node, by deleting it from the graph and predicting again under its schedule.

    The node's own edges are deleted one by one; of those further away a gradient proposes which are worth a deletion.
    Where the model has no such gradient, the nearest are.

    Args:
        members: the model, or those of a blend, the first of which proposes what to delete.
        node: the row of the node.
        task: what the outputs, or those of the blend, mean: classes.
        classes: the name of each class; None: its number.
        num: how many of each to list, at most.

    Raises:
        ValueError: when numbers are predicted.
    """
    if not isinstance(task, Classification):
        raise ValueError(f"An explanation needs a prediction of classes. Got a {task.name}.")
    check_count("num", num)
    predictors = [_Predictor.whole(member) for member in members]
    first, data = predictors[0], members[0].data
    graph, x = first.graph, data.get("x")

    def predict(gone: Callable[[Graph], Tensor] | None = None, column: int | None = None) -> Tensor:
        found = [each.predict(node, gone, column) for each in predictors]
        return task.predict(task.combine(found) if len(found) > 1 else found[0].outputs)

    before = predict()
    chosen = int(before.argmax())

    def without_edges(gone: Callable[[Graph], Tensor]) -> float:
        return float(before[0, chosen] - predict(gone)[0, chosen])

    def without_column(column: int) -> float:
        return float(before[0, chosen] - predict(column=column)[0, chosen])

    links = rank_links(first.of.model, data, first.of.pipeline, first.plan, first.of.partition, node, chosen)
    ids = node_ids(data)
    pairs = _candidates(links.pairs, (links.pairs == node).any(1), num, links.guided)
    edges = _largest(pairs, lambda pair: without_edges(lambda graph: _joins(graph, *pair)), num)
    others = links.neighbours(node)
    near = _candidates(others, links.distance[others] == 1, num, links.guided)
    neighbours = _largest(near, lambda other: without_edges(lambda graph: _touches(graph, other)), num)
    columns = [] if x is None else _largest(_own_columns(x, node), without_column, num)
    names = data.get("feature_names")
    return Explanation(
        node=ids[node].as_py(),
        prediction=chosen if classes is None else classes[chosen],
        probability=float(before[0, chosen]),
        edges=tuple((*(ids[end].as_py() for end in _direct(links, graph, *pair)), effect) for pair, effect in edges),
        neighbours=tuple((ids[other].as_py(), effect) for other, effect in neighbours),
        columns=tuple((column if names is None else names[column], effect) for column, effect in columns),
    )


def find_node(data: Data, node: Any) -> int:
    """The row of the node of this id.

    Raises:
        ValueError: when there is none.

    >>> import gpnn
    >>> find_node(gpnn.Graph([0], [1], num_nodes=2).to_data(), "1")
    1
    """
    (row,) = find_nodes(data, [str(node)])
    return int(row)


@dataclass(frozen=True, eq=False)
class _Predictor:
    """What predicts a node, on the graph as it is and without some of it."""

    of: Explained
    graph: Graph
    plan: Plan

    @classmethod
    def whole(cls, member: Explained) -> _Predictor:
        """That of a graph as it is, which is divided where the member has no subgraphs."""
        pipeline, data, part = member.pipeline, member.data, member.partition
        part = pipeline.divide_again(data) if part is None else part
        return cls(replace(member, partition=part), as_graph(data), pipeline.lower(data, part))

    def predict(self, node: int, gone: Callable[[Graph], Tensor] | None, column: int | None) -> Prediction:
        """The outputs of a node, float64, `[1, C]`, maybe without edges, a mask `[E]`, or one of its columns."""
        x = self.of.data.get("x")
        x = x if column is None or x is None else _without_column(x, node, column, self.of.scaled)
        plan = self.plan if gone is None else self._lower_without(gone(self.graph))
        found = predict_outputs(self.of.model, x, plan, precision=self.of.precision)
        return Prediction(self.of.weight, self.of.task, found[node, None].double())

    def _lower_without(self, gone: Tensor) -> Plan:
        data = copy(self.of.data)
        data.graph = self.graph.select_edges(~gone)
        return self.of.pipeline.lower(data, self.of.partition)


def _candidates(ranked: Tensor, own: Tensor, num: int, guided: bool) -> list[Any]:
    """What is worth a deletion: the node's own, of which a gradient says too little, and the best of the others.

    Without its only edge over the cut a node has no part in the cut's phase, and its state jumps.
    """
    return [*ranked[own][: OWN * num].tolist(), *ranked[~own][: num * (GUIDED if guided else UNGUIDED)].tolist()]


def _largest(candidates: Iterable[Any], effect: Callable[[Any], float], num: int) -> list[tuple[Any, float]]:
    """The candidates of the largest positive effects, and these."""
    found = [(each, effect(each)) for each in candidates]
    return sorted((each for each in found if each[1] > 0), key=lambda each: -each[1])[:num]


def _joins(graph: Graph, one: int, other: int) -> Tensor:
    """Which edges join two nodes, either way, `[E]`."""
    return ((graph.src == one) & (graph.dst == other)) | ((graph.src == other) & (graph.dst == one))


def _touches(graph: Graph, node: int) -> Tensor:
    """Which edges begin or end at a node, `[E]`."""
    return (graph.src == node) | (graph.dst == node)


def _direct(links: Links, graph: Graph, one: int, other: int) -> tuple[int, int]:
    """Two joined nodes as source and target of an edge that there is, towards the explained node where both are."""
    first, second = (one, other) if links.distance[one] >= links.distance[other] else (other, one)
    return (first, second) if bool(((graph.src == first) & (graph.dst == second)).any()) else (second, first)


def _own_columns(x: Tensor, node: int) -> list[int]:
    """The columns in which a node has something, the largest values first."""
    row = _row(x, node)
    order = row.abs().argsort(descending=True, stable=True)
    return order[: min(MOST_COLUMNS, int(row.count_nonzero()))].tolist()


def _row(x: Tensor, node: int) -> Tensor:
    row = slice_rows(x, slice(node, node + 1))
    return (row if row.layout == torch.strided else row.to_dense())[0]


def _without_column(x: Tensor, node: int, column: int, scaled: bool) -> Tensor:
    """The features with one entry 0, `[N, F]`, dense or sparse CSR as they came."""
    row = _row(x, node).clone()
    row[column] = 0
    row = scale_rows(row[None])[0] if scaled else row
    if x.layout == torch.strided:
        x = x.clone()
        x[node] = row
        return x
    ptr, columns = x.crow_indices(), x.col_indices()
    entries, values = slice(int(ptr[node]), int(ptr[node + 1])), x.values().clone()
    values[entries] = row[columns[entries].long()]
    return csr_tensor(np.asarray(ptr), np.asarray(columns), values.numpy(), (x.shape[0], x.shape[1]))
