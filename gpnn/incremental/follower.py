"""Follower: an estimator's predictions for a graph that changes, as tables by the user's ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import Undirected
from gpnn.data.tables.column import as_text, named
from gpnn.data.tables.vocabulary import Choices
from gpnn.graph import as_graph
from gpnn.incremental.change import Change, read_change
from gpnn.incremental.live_graph import LiveGraph
from gpnn.incremental.predictor import Predictor
from gpnn.incremental.rows import distinct
from gpnn.kernels.execution import one_thread
from gpnn.nn import GPNN, NodeModel
from gpnn.pipeline import Pipeline
from gpnn.run.known_nodes import KnownNodes, node_ids
from gpnn.run.predictions import predictions_table
from gpnn.train.task import Prediction, Task

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


def start_predictor(
    model: NodeModel,
    data: Data,
    pipeline: Pipeline,
    known: KnownNodes,
    *,
    undirected: Undirected = False,
    precision: str = "float32",
    keep: bool = True,
) -> Predictor:
    """A model's predictor for a graph; nodes that it was trained on keep their subgraphs.

    Args:
        model: trained.
        data: the graph to begin with, as the model takes it.
        pipeline: the arguments of its schedule.
        known: the nodes that the model was trained on.
        undirected: whether edges come and go both ways, as of :class:`LiveGraph`.
        precision, keep: as of :class:`Predictor`.
    """
    ids, places, labels = node_ids(data), known.find(data), known.labels
    if labels is not None and not (places >= 0).any():  # another graph: divided once, and then kept
        part = pipeline.divide_again(data)
        assert part is not None
        labels, places = part.labels.numpy(), np.arange(data.num_nodes)
    texts, x = as_text(ids).to_pylist(), data.get("x")
    graph = LiveGraph(as_graph(data), x, texts, known=places, labels=labels, undirected=undirected)
    return Predictor(model, graph, pipeline, precision=precision, keep=keep)


class Followed(NamedTuple):
    """One of the models that predict together.

    Attributes:
        weight: of its predictions.
        task: what its outputs mean.
        predictor: of the graph as it takes it.
        transform: gives nodes the features that it takes.
    """

    weight: float
    task: Task
    predictor: Predictor
    transform: Callable[[Data], Data]

    def as_taken(self, change: Change) -> Change:
        """The change with features as the model takes them."""
        from torch_geometric.data import Data

        if change.x is None:
            return change
        return replace(change, x=self.transform(Data(x=change.x, num_nodes=len(change.nodes))).x)


class Follower:
    """The predictions of a trained model, or of several together, for a graph, kept up to date while it changes.

    Args:
        models: with the graph to begin with.
        data: that graph.
        task: what the outputs of all together mean.
        classes: the name of each class, or None.

    Raises:
        ValueError: when nodes have embeddings.
    """

    def __init__(self, models: Sequence[Followed], data: Data, task: Task, classes: Sequence[Any] | None) -> None:
        for each in models:
            if isinstance(each.predictor.model, GPNN) and each.predictor.model.embedding is not None:
                raise ValueError("A model whose nodes have embeddings knows its own graph alone. Got such a one.")
        self.models, self.task, self.classes = models, task, classes
        self.frame_kind, self.frame_columns = data.get("frame_kind"), data.get("frame_columns") or {}
        self._numeric = str(node_ids(data).type) == "int64"
        self._next_id = None if data.get("node_name") is not None else data.num_nodes
        for each in models:
            each.predictor.predict()

    @property
    def graph(self) -> LiveGraph:
        """The graph as the first model takes it; the nodes of the others are in the same slots."""
        return self.models[0].predictor.graph

    @property
    def whole(self) -> str:
        """Why every update computes all nodes; "" where it does not."""
        return next((each.predictor.whole for each in self.models if each.predictor.whole), "")

    def update(
        self,
        nodes: Any,
        edges: Any,
        removed_nodes: Any,
        removed_edges: Any,
        ids: Sequence[Any] | None,
        choices: Choices,
    ) -> pyarrow.Table:
        """Apply a change, as :func:`gpnn.incremental.change.read_change` reads it; what was computed again.

        Raises:
            ValueError: when the change does not suit the graph, which then stays as it was.
        """
        given = (nodes, edges, removed_nodes, removed_edges)
        change = read_change(*given, choices=choices, ids=ids, next_id=self._next_id).change
        changes = [each.as_taken(change) for each in self.models]
        for each, own in zip(self.models[1:], changes[1:]):  # before the first is changed, which checks its own
            each.predictor.graph.check(own)
        slots = [each.predictor.update(own).slots for each, own in zip(self.models, changes)]
        if self._next_id is not None and ids is None:
            self._next_id += len(change.nodes)
        return self._table(distinct(*slots))

    def table(self) -> pyarrow.Table:
        """The predictions of all nodes, the oldest first."""
        return self._table(self.graph.slots.in_order())

    def _outputs(self, slots: np.ndarray) -> Tensor:
        """Those of all models together, `[n, C]`."""
        found = []
        for each in self.models:
            assert each.predictor.outputs is not None
            found.append(Prediction(each.weight, each.task, each.predictor.outputs[torch.from_numpy(slots)]))
        return found[0].outputs if len(found) == 1 else self.task.combine(found)

    def _table(self, slots: np.ndarray) -> pyarrow.Table:
        import pyarrow

        ids = self.graph.slots.ids
        names = pyarrow.array([ids[slot] for slot in slots.tolist()], pyarrow.large_string())
        with one_thread(self.task.num_outputs * len(slots)):
            columns = self.task.columns(self.task.predict(self._outputs(slots)), self.classes)
        return predictions_table(columns, nodes=named(names) if self._numeric else names)
