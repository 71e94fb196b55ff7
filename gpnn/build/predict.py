"""Predictions of a finished run's model on a graph: its own, one that has grown, or another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.build.objects import Built, rebuild
from gpnn.build.unchanged import load_run_config
from gpnn.config import Config
from gpnn.config.sections import DataConfig
from gpnn.data import DATASETS
from gpnn.data.features import transform_data
from gpnn.data.files import sha256_of
from gpnn.data.tables import match_files
from gpnn.data.tables.binary import read_parquet_columns
from gpnn.data.tables.vocabulary import Vocabulary
from gpnn.engine import Plan
from gpnn.nn import NodeModel
from gpnn.partition import Partition
from gpnn.recipes import RECIPES, parse_training
from gpnn.run.checkpoint import restore_model
from gpnn.run.folder import RunFolder
from gpnn.run.known_nodes import KnownNodes, RowDigests, place_model
from gpnn.run.predictions import SUFFIXES, concat, data_rows, known_labels, node_types, predictions_table, true_labels
from gpnn.storage.read import shorten
from gpnn.train.blend import Blend
from gpnn.train.evaluate import output_pieces
from gpnn.train.task import Classification, Prediction, Task, parse_task

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data

PATHS = ("nodes", "edges", "features", "labels")  # options that name where a graph is, not what it means
TABLES = (*(f"{part}*" for part in PATHS), "removed_*")


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished run's model and what it knows of its data.

    Attributes:
        run: the run.
        model: with its weights.
        arguments: what the model was made of.
        classes: the name of each class, or None where they are numbered.
        task: what the outputs of its model mean, or those of its blend.
        vocabulary: what columns, classes and edge types of tables mean, or None where there were no tables.
        digests: by which the rows of its graph are known, or None where its nodes have ids of their own.
        predictions_sha256: of the run's file of predictions, or None in runs of older versions.
        weight: of its own model in its blend; 1 where predictions are its model's alone.
        own_task: what the outputs of its own model mean.
        members: the other models of its blend.
    """

    run: RunFolder
    model: NodeModel
    arguments: dict[str, Any]
    classes: list[Any] | None
    task: Task
    vocabulary: Vocabulary | None
    digests: RowDigests | None
    predictions_sha256: str | None
    weight: float
    own_task: Task
    members: tuple[Member, ...] = ()

    def known_nodes(self) -> KnownNodes | None:
        """The run's nodes and their subgraphs; None where its predictions are gone.

        Raises:
            ValueError: when the file of predictions was changed or is damaged.
        """
        file = self.run.predictions
        if not file.is_file():
            return None
        if self.predictions_sha256 not in (None, sha256_of(file)):
            raise ValueError(f"{file} must be as it was written, for the subgraphs in it. Its digest is another.")
        return KnownNodes.from_table(read_parquet_columns(file, ("node", "subgraph")), self.digests, file.name)

    def as_read(self, config: Config) -> Config:
        """The configuration to read a graph with: as it is, where members of a blend transform it differently."""
        raw: dict[str, Any] = {} if self._alike(config) else {"undirected": False, "scale_features": "none"}
        return replace(config, data=replace(config.data, **raw))

    def _alike(self, config: Config) -> bool:
        """Whether all models take a graph with the same transforms."""
        return all(_transforms(member.config) == _transforms(config) for member in self.members)

    def each(self, config: Config, data: Data) -> Iterator[tuple[float, Task, Trained, Config, Data]]:
        """Weight, task, run, configuration and graph of every model, its own first.

        Args:
            config: of the run, with the graph to predict on.
            data: that graph as :meth:`as_read` has it.
        """
        for weight, trained, own in (Member(self.weight, self, config), *self.members):
            transforms = _transforms(own)
            placed = replace(own, data=replace(config.data, **transforms))
            graph = data if self._alike(config) else transform_data(data, **transforms)
            yield weight, trained.own_task, trained, placed, graph


def _transforms(config: Config) -> dict[str, Any]:
    return {name: getattr(config.data, name) for name in ("undirected", "scale_features")}


class Member(NamedTuple):
    """One of the models of a blend: its weight, its run and its configuration."""

    weight: float
    trained: Trained
    config: Config


def read_trained(run: RunFolder) -> Trained:
    """The model of a finished run.

    Raises:
        ValueError: when the run is not finished, or its model's file is damaged.
    """
    weights, described = run.read_model()
    model = restore_model(described.get("model"), weights, run.model.name)
    arguments, classes, words = described["model"], described.get("classes"), described.get("vocabulary")
    vocabulary = None if words is None else Vocabulary.from_mapping(words)
    rows = described.get("rows")  # runs of older versions have none
    digests = None if rows is None else RowDigests.parse(rows, run.model.name)
    task, blend = _task(described, run.model.name), described.get("blend")
    known = (classes, task, vocabulary, digests, described.get("predictions_sha256"))
    if blend is None:  # as in older versions
        return Trained(run, model, dict(arguments), *known, 1.0, task)
    try:
        found, own = Blend.from_mapping(blend), parse_task(blend["task"], run.model.name)
        if not {parse_training(name)[0] for name in found.weights} <= set(RECIPES):
            raise ValueError
        weight = next(iter(found.weights.values()))
    except (AttributeError, KeyError, TypeError, ValueError, StopIteration):
        raise ValueError(f"{run.model.name} must hold a blend. Got {shorten(blend)}.") from None
    return Trained(run, model, dict(arguments), *known, weight, own, read_members(run, found, task))


def read_members(run: RunFolder, blend: Blend, task: Task, *, averaged: bool = True) -> tuple[Member, ...]:
    """The members of a run's blend but for its own model, which comes first there.

    Args:
        run: the run folder.
        blend: names and weights.
        task: in which their predictions are averaged or, where they are not `averaged` yet, that of the run's model.

    Raises:
        ValueError: when one is missing or predicts something else.
    """
    members = {}
    for name, share in list(blend.weights.items())[1:]:
        member = RunFolder.open(run.members / name)
        members[name] = Member(share, read_trained(member), load_run_config(member))
    whole = task if averaged else task.blended([each.trained.task for each in members.values()])
    for name, (_, trained, _) in members.items():
        if trained.members or not (trained.task.joins(whole) and trained.task.num_outputs == whole.num_outputs):
            raise ValueError(f"The members of {str(run.path)!r} must predict what it predicts. Got another in {name}.")
    return tuple(members.values())


def trained_task(run: RunFolder) -> Task:
    """The task of a finished run, as its training left it."""
    return _task(run.read_model()[1], run.model.name)


def _task(described: Mapping[str, Any], file: str) -> Task:
    """The task of a run; runs of older versions hold whether a node may have several labels."""
    if "task" in described:
        return parse_task(described["task"], file)
    return Classification(described["model"]["out_channels"], bool(described.get("multi_label")))


def describe_model(
    built: Built, task: Task, digests: RowDigests | None, predictions: Path, blend: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What :func:`read_trained` reads beside the weights of a run's model, as JSON holds it.

    Args:
        built: the objects of the run.
        task: as the training left it.
        digests: of its graph where nodes have no ids.
        predictions: the run's file of predictions, written already: new nodes join the subgraphs in it.
        blend: as JSON holds it, with the task of the run's own model, or None where that predicts alone.
    """
    data, words = built.data, built.data.get("vocabulary")
    return {
        "model": built.model_arguments,
        "classes": data.get("class_names"),
        "task": task.to_mapping(),
        "vocabulary": None if words is None else words.to_mapping(),
        "rows": None if digests is None else digests._asdict(),
        "predictions_sha256": sha256_of(predictions),
        "blend": blend,
    }


def with_graph(config: Config, given: DataConfig) -> Config:
    """A run's configuration with the graph to predict on: the run's transforms, and its options that still apply."""
    trained = config.data
    given = replace(given, undirected=trained.undirected, scale_features=trained.scale_features)
    if given.name == trained.name and given.name in DATASETS:
        given = replace(given, root=given.root or trained.root, options={**trained.options, **given.options})
    elif given.name not in DATASETS and trained.name not in DATASETS:
        elsewhere = given.name != trained.name or any(name in given.options for name in PATHS)
        kept = {name: value for name, value in trained.options.items() if not (elsewhere and name in PATHS)}
        given = replace(given, options={**kept, **given.options})
    return replace(config, data=given)


def graph_files(config: Config, update: Path | None = None) -> list[Path]:
    """The files that a user's graph, and an update of it, may be read from: the graph's own, or its tables."""
    folder, options = Path(config.data.name), config.data.options
    named = [folder / str(options.get(part) or part) for part in PATHS]
    inside = [each for place in (folder, update) if place is not None for part in TABLES for each in place.glob(part)]
    return [folder, *inside, *(file for path in named for file in match_files(path, SUFFIXES))]


def predict_trained(trained: Trained, config: Config, data: Data) -> pyarrow.Table:
    """The predictions of a finished run's model on a graph, its own or another, a row per node.

    Args:
        trained: the run's model.
        config: the run's configuration.
        data: the graph as :meth:`Trained.as_read` has it; with features as the run had them, where its model takes any.

    Raises:
        ValueError: when the graph does not suit the model.
    """
    return concat(predict_tables(trained, config, data))


def predict_tables(trained: Trained, config: Config, data: Data) -> Iterator[pyarrow.Table]:
    """The predictions, some nodes at a time, in order; `new` marks the nodes that the run did not know.

    Known nodes keep the subgraph that they were trained in, whatever else the graph holds; a new one joins that of a
    neighbour. A graph without a known node is divided anew. Embeddings: :func:`gpnn.run.known_nodes.place_model`.
    """
    row, pieces = _outputs(trained, config, data)
    task, classes = trained.task, check_classes(trained)
    for rows, outputs in pieces:
        some = data_rows(data, rows)
        yield predictions_table(
            task.columns(task.predict(outputs), classes),
            nodes=some.get("node_name", np.arange(rows.start, rows.stop)),
            labelled=known_labels(some),
            label=true_labels(some, data.get("class_names")),
            also=node_types(some) | ({} if row is None else {"new": row[rows] < 0}),
        )


def _outputs(trained: Trained, config: Config, data: Data) -> tuple[np.ndarray | None, Iterable[tuple[slice, Tensor]]]:
    """Which of the run's nodes the nodes are, and the outputs of ranges of nodes; those of a blend are in one."""
    found, rows = [], []
    for weight, task, member, own, graph in trained.each(config, data):
        model, plan, known, _ = place_trained(member, own, graph)
        pieces = output_pieces(model, graph.get("x"), plan, precision=own.train.precision)
        if not trained.members:
            return known, ((nodes, _check_width(outputs, trained)) for nodes, outputs in pieces)
        outputs = torch.cat([each for _, each in pieces])
        found.append(Prediction(weight, task, _check_width(outputs, member)))
        rows.append(known)
    return rows[0], [(slice(0, data.num_nodes), trained.task.combine(found))]


def _check_width(outputs: Tensor, trained: Trained) -> Tensor:
    """The same outputs, when there are as many as the task has."""
    width = trained.task.num_outputs
    if outputs.shape[1] != width:
        raise ValueError(f"{trained.run.model.name} must have the {width} outputs of its task. Got {outputs.shape[1]}.")
    return outputs


def place_trained(
    trained: Trained, config: Config, data: Data
) -> tuple[NodeModel, Plan, np.ndarray | None, Partition | None]:
    """A run's model and the plan of a graph; which of the run's nodes its nodes are, and the subgraphs that they keep.

    Raises:
        ValueError: when the graph does not suit the model.
    """
    model, row, part = place_model(trained.model, trained.known_nodes(), data)
    return *rebuild(config, model, trained.arguments, data, part), row, part


def check_classes(trained: Trained) -> list[Any] | None:
    """The names of a run's classes; None: they are numbered.

    Raises:
        ValueError: when there are not as many as the task has outputs.
    """
    classes, width = trained.classes, trained.task.num_outputs
    if classes is not None and not (isinstance(classes, list) and len(classes) == width):
        raise ValueError(f"{trained.run.model.name} must name its {width} classes. Got {shorten(classes)}.")
    return classes
