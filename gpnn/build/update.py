"""Predictions of a run's graph after a change, of which only what the change may reach is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.build.objects import build_data, pipeline_of
from gpnn.build.predict import Trained, check_classes, predict_trained
from gpnn.build.unchanged import check_unchanged
from gpnn.config import Config
from gpnn.data import DATASETS
from gpnn.data.check import digest_data
from gpnn.data.features import DIRECTIONS, TYPED, transform_data
from gpnn.data.labels import labelled_nodes
from gpnn.data.tables.binary import read_parquet_columns
from gpnn.data.tables.column import as_text, named
from gpnn.data.tables.vocabulary import COLUMNS, Choices
from gpnn.graph import as_graph
from gpnn.incremental import LiveGraph
from gpnn.incremental.change import ReadChange, read_change_folder
from gpnn.incremental.follower import Followed, start_predictor
from gpnn.kernels.execution import choose_device
from gpnn.run.known_nodes import node_ids
from gpnn.run.predictions import known_labels, predictions_table, true_labels
from gpnn.train.task import Prediction

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class UpdatedPredictions:
    """The predictions of a graph after a change.

    Attributes:
        table: a row per node, as of :func:`gpnn.build.predict_trained`: those of before, then new ones.
        num_computed: how many nodes were computed again.
        whole: why that were all; "" where it was what the change may reach.
        notes: on what was decided while the change was read.
    """

    table: pyarrow.Table
    num_computed: int
    whole: str
    notes: Sequence[str]


def update_trained(trained: Trained, config: Config, folder: Path) -> UpdatedPredictions:
    """The predictions of a run's model on its graph after a change; those that it cannot reach are the run's own.

    Args:
        trained: a finished run.
        config: its configuration.
        folder: tables of what changed, as :func:`gpnn.incremental.change.read_change_folder` reads them.

    Raises:
        ValueError: when the run's predictions are gone, its data has changed since, or the change does not suit it.
    """
    data = build_data(trained.as_read(config))
    models = _follow(trained, config, data)
    read = read_change_folder(folder, _choices(config, trained))
    notes = [] if read.data is None else read.data.get("notes") or []
    whole = next((each.predictor.whole for each in models if each.predictor.whole), "")
    if not whole:
        found = [each.predictor.reach(each.as_taken(read.change)) for each in models]
        whole = next((why for _, why in found if why), "")
    if whole:
        graph = LiveGraph(as_graph(data), data.get("x"), _ids(data), undirected=_read_both_ways(config))
        graph.apply(read.change)
        table = predict_trained(trained, config, _data_after(data, read, graph))
        return UpdatedPredictions(table, table.num_rows, whole, notes)
    slots = np.unique(np.concatenate([rows[-1] for rows, _ in found]))
    outputs = [Prediction(each.weight, each.task, each.predictor.predict_nodes(slots)) for each in models]
    combined = trained.task.combine(outputs) if trained.members else outputs[0].outputs
    columns = trained.task.columns(trained.task.predict(combined), check_classes(trained))
    table = _merge(trained, data, read, models[0].predictor.graph, slots, columns)
    return UpdatedPredictions(table, len(slots), "", notes)


def _follow(trained: Trained, config: Config, data: Data) -> list[Followed]:
    """The models of a run, and its graph as each takes it."""
    models: list[Followed] = []
    for weight, task, member, own, graph in trained.each(config, data):
        known = member.known_nodes()
        if known is None:
            raise ValueError(f"`--update` needs the run's {member.run.predictions.name}. {member.run.path} holds none.")
        if not models:
            check_unchanged(trained.run, {"data_sha256": digest_data(graph)}, config)
        model, both_ways = member.model.to(choose_device(own.device)), own.data.undirected
        predictor = start_predictor(
            model,
            graph,
            pipeline_of(own),
            known,
            undirected=both_ways or _read_both_ways(config),
            precision=own.train.precision,
            keep=False,
        )
        if both_ways in (TYPED, DIRECTIONS) and _read_both_ways(config):
            predictor.whole = "its edges go both ways, and each has a reverse of another type"
        scale = partial(transform_data, scale_features=own.data.scale_features)
        models.append(Followed(weight, task, predictor, scale))
    return models


def _read_both_ways(config: Config) -> bool:
    """Whether tables are read with the reverse of every edge."""
    return bool(config.data.options.get("undirected"))


def _ids(data: Data) -> list[str]:
    return as_text(node_ids(data)).to_pylist()


def _choices(config: Config, trained: Trained) -> Choices:
    """How the tables of a change are understood: as the run's own."""
    if config.data.name in DATASETS:
        return Choices()
    named = set(COLUMNS) - {"undirected", "seed"}
    return Choices(
        vocabulary=trained.vocabulary, **{name: each for name, each in config.data.options.items() if name in named}
    )


def _data_after(data: Data, read: ReadChange, graph: LiveGraph) -> Data:
    """The graph after the change, with ids, features and labels."""
    slots = graph.slots.in_order()
    after = graph.edges.to_graph(slots).to_data()
    after.x, after.y = graph.take_features(slots), _labels_after(data, read, graph, slots)
    after.node_name = np.array([graph.slots.ids[slot] for slot in slots.tolist()], object)
    after.class_names = data.get("class_names")
    return after


def _labels_after(data: Data, read: ReadChange, graph: LiveGraph, slots: np.ndarray) -> Tensor | None:
    """The label of each node: that of the change, else that of the run's graph, else none."""
    y, known = data.get("y"), torch.from_numpy(graph.known[slots])
    if y is None:
        return None
    unknown = y.new_full((1, *y.shape[1:]), float("nan") if y.is_floating_point() else -1)
    labels = torch.cat([y, unknown])[known]  # the last where a node is new
    given = None if read.data is None else read.data.get("y")
    if given is not None:
        place = np.full(graph.edges.num_slots, -1)
        place[slots] = np.arange(len(slots))
        has = labelled_nodes(given)
        rows = torch.from_numpy(place[graph.slots.find(read.change.nodes, "nodes")])
        labels[rows[has]] = given[has].to(labels)
    return labels


def _merge(
    trained: Trained,
    data: Data,
    read: ReadChange,
    graph: LiveGraph,
    computed: np.ndarray,
    columns: tuple[dict[str, Any], dict[str, Any]],
) -> pyarrow.Table:
    """The run's own predictions, with the columns of those that were computed in their places."""
    import pyarrow
    from torch_geometric.data import Data

    before, slots = read_parquet_columns(trained.run.predictions), graph.slots.in_order()
    row = graph.known.copy()  # in the run's predictions; those that were computed follow them
    row[computed] = before.num_rows + np.arange(len(computed))

    def merged(found: dict[str, Any]) -> dict[str, Any]:
        parts = {
            name: [*before[name].chunks, pyarrow.array(new).cast(before[name].type)] for name, new in found.items()
        }
        return {name: pyarrow.chunked_array(each).take(pyarrow.array(row[slots])) for name, each in parts.items()}

    after = Data(y=_labels_after(data, read, graph, slots), num_nodes=len(slots))
    ids = pyarrow.array([graph.slots.ids[slot] for slot in slots.tolist()], pyarrow.large_string())
    return predictions_table(
        (merged(columns[0]), merged(columns[1])),
        nodes=named(ids) if pyarrow.types.is_integer(before["node"].type) else ids,
        labelled=known_labels(after),
        label=true_labels(after, data.get("class_names")),
        also={"new": graph.known[slots] < 0},
    )
