"""Follower: an estimator's predictions for a graph that changes, as tables by the user's ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from gpnn.data.tables.column import as_text, named
from gpnn.data.tables.vocabulary import Choices
from gpnn.graph import as_graph
from gpnn.incremental.live_graph import LiveGraph
from gpnn.incremental.predictor import Predictor
from gpnn.incremental.read_change import read_change
from gpnn.nn import GPNN
from gpnn.nn.models import NodeModel
from gpnn.pipeline import Pipeline
from gpnn.run.known_nodes import KnownNodes, node_ids
from gpnn.run.predictions import predictions_table
from gpnn.train.task import Task

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


class Follower:
    """The predictions of a trained model for a graph, kept up to date while it changes.

    Args:
        model: trained.
        data: the graph to begin with, as the model takes it.
        pipeline: the arguments of its schedule.
        known: the nodes that the model was trained on.
        task: what the outputs mean.
        classes: the name of each class, or None.
        choices: how columns of tables are understood.
        scale_features: how features are scaled.
        undirected: whether edges come and go both ways.
    """

    def __init__(
        self,
        model: NodeModel,
        data: Data,
        pipeline: Pipeline,
        *,
        known: KnownNodes,
        task: Task,
        classes: Sequence[Any] | None,
        choices: Choices,
        scale_features: str,
        undirected: bool,
    ) -> None:
        if isinstance(model, GPNN) and model.embedding is not None:
            raise ValueError("A model whose nodes have embeddings knows its own graph alone: train one with features.")
        ids, places = node_ids(data), known.find(data)
        labels = known.labels
        if labels is not None and not (places >= 0).any():  # another graph: divided once, and then kept
            part = pipeline.divide_again(data)
            assert part is not None
            labels, places = part.labels.numpy(), np.arange(data.num_nodes)
        graph = LiveGraph(
            as_graph(data),
            data.get("x"),
            as_text(ids).to_pylist(),
            known=places,
            labels=labels,
            undirected=undirected,
        )
        self.predictor = Predictor(model, graph, pipeline)
        self.task, self.classes, self.choices, self.scale_features = task, classes, choices, scale_features
        self._numeric = str(ids.type) == "int64"
        self._next_id = None if data.get("node_name") is not None else data.num_nodes
        self.predictor.predict()

    @property
    def whole(self) -> str:
        """Why every update computes all nodes; "" where it does not."""
        return self.predictor.whole

    def update(
        self,
        nodes: Any,
        edges: Any,
        removed_nodes: Any,
        removed_edges: Any,
        ids: Sequence[Any] | None,
        columns: Mapping[str, str],
    ) -> pyarrow.Table:
        """Apply a change, as :func:`gpnn.incremental.read_change.read_change` reads it; what was computed again.

        Raises:
            ValueError: when the change does not suit the graph, which then stays as it was.
        """
        read = read_change(
            nodes,
            edges,
            removed_nodes,
            removed_edges,
            choices=self.choices,
            scale_features=self.scale_features,
            ids=ids,
            columns=columns,
            next_id=self._next_id,
        )
        made = self.predictor.update(read.change)
        if self._next_id is not None and ids is None:
            self._next_id += len(read.change.nodes)
        return self._table(made.slots, made.outputs)

    def table(self) -> pyarrow.Table:
        """The predictions of all nodes, the oldest first."""
        slots = self.predictor.graph.slots.in_order()
        assert self.predictor.outputs is not None
        return self._table(slots, self.predictor.outputs[slots])

    def _table(self, slots: np.ndarray, outputs: Tensor) -> pyarrow.Table:
        import pyarrow

        ids = self.predictor.graph.slots.ids
        names = pyarrow.array([ids[slot] for slot in slots.tolist()], pyarrow.large_string())
        columns = self.task.columns(self.task.predict(outputs), self.classes)
        return predictions_table(columns, nodes=named(names) if self._numeric else names)
