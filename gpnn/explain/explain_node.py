"""explain_node: the edges, neighbours and columns that carried a prediction, each by what its deletion changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
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
from gpnn.train.task import Classification, Task

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


def explain_node(
    model: NodeModel,
    data: Data,
    pipeline: Pipeline,
    node: int,
    *,
    task: Task,
    partition: Partition | None = None,
    classes: Sequence[Any] | None = None,
    scaled: bool = False,
    precision: str = "float32",
    num: int = 10,
) -> Explanation:
    """What carried the prediction of a node, by deleting it from the graph and predicting again under its schedule.

    The node's own edges are deleted one by one; of those further away a gradient proposes which are worth a deletion.
    Where the model has no such gradient, the nearest are.

    Args:
        model: trained.
        data: the graph, as the model takes it.
        pipeline: the arguments of its schedule.
        node: the row of the node.
        task: what the outputs mean: classes.
        partition: the subgraphs, which deletions leave as they are; None: the graph is divided as the pipeline has it.
        classes: the name of each class; None: its number.
        scaled: whether rows of features sum to one, as they do again without a column.
        precision: as of :class:`gpnn.train.Recipe`.
        num: how many of each to list, at most.

    Raises:
        ValueError: when numbers are predicted.
    """
    if not isinstance(task, Classification):
        raise ValueError(f"An explanation needs a prediction of classes. Got a {task.name}.")
    check_count("num", num)
    partition = pipeline.divide_again(data) if partition is None else partition
    predictor = _Predictor(model, data, as_graph(data), pipeline, partition, pipeline.lower(data, partition), precision)
    graph, x = predictor.graph, data.get("x")
    before = task.predict(predictor.outputs(node, x))
    chosen = int(before.argmax())

    def effect(outputs: Tensor) -> float:
        return float(before[0, chosen] - task.predict(outputs)[0, chosen])

    def without_edges(gone: Tensor) -> float:
        return effect(predictor.outputs(node, x, predictor.lower_without(gone)))

    def without_column(column: int) -> float:
        assert x is not None
        return effect(predictor.outputs(node, _without_column(x, node, column, scaled)))

    links = rank_links(model, data, pipeline, predictor.plan, partition, node, chosen)
    ids = node_ids(data)
    pairs = _candidates(links.pairs, (links.pairs == node).any(1), num, links.guided)
    edges = _largest(pairs, lambda pair: without_edges(_joins(graph, *pair)), num)
    others = links.neighbours(node)
    near = _candidates(others, links.distance[others] == 1, num, links.guided)
    neighbours = _largest(near, lambda other: without_edges((graph.src == other) | (graph.dst == other)), num)
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

    model: NodeModel
    data: Data
    graph: Graph
    pipeline: Pipeline
    partition: Partition | None
    plan: Plan
    precision: str

    def outputs(self, node: int, x: Tensor | None, plan: Plan | None = None) -> Tensor:
        """Those of a node, float64, `[1, C]`; under the plan of the whole graph unless another is given."""
        found = predict_outputs(self.model, x, self.plan if plan is None else plan, precision=self.precision)
        return found[node, None].double()

    def lower_without(self, gone: Tensor) -> Plan:
        """The plan without some of the edges, a mask `[E]`; the subgraphs stay."""
        data = copy(self.data)
        data.graph = self.graph.select_edges(~gone)
        return self.pipeline.lower(data, self.partition)


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
