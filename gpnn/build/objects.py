"""From configuration to objects: data, partition, schedule, plan, model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from gpnn.config import Config
from gpnn.data import load_dataset
from gpnn.data.features import choose_scale, transform_data
from gpnn.data.labels import check_trainable
from gpnn.data.tables import Vocabulary
from gpnn.engine import Plan, lower
from gpnn.nn import GPNN
from gpnn.partition import Partition, partition_graph
from gpnn.schedule import Schedule
from gpnn.storage.read import shorten
from gpnn.train.assemble import Sizes, make_schedule, model_arguments, most_parts, needs_partition, resolve_recipe
from gpnn.train.device import choose_device
from gpnn.train.engine import ENGINES, EngineChoice, build_within_memory, choose_engine
from gpnn.train.mapped import map_features
from gpnn.train.notes import Facts, Note, take_notes

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class Built:
    """The objects of one run.

    Attributes:
        config: the configuration with every "auto" replaced by what was chosen.
        data: features, labels and masks.
        partition: the subgraphs, or None under a schedule that needs none.
        plan: the lowered schedule.
        model: on the plan's device, at its initial weights.
        model_arguments: what the model was made of, as JSON holds it.
        engine: how the plan is run, and the memory that this is estimated to take; None under several processes.
        notes: what was decided on the user's behalf, and what is not used.
    """

    config: Config
    data: Data
    partition: Partition | None
    plan: Plan
    model: GPNN
    model_arguments: dict[str, Any]
    engine: EngineChoice | None = None
    notes: Sequence[Note] = ()


def build(config: Config, data: Data | None = None) -> Built:
    """Everything a training needs, sizes chosen by the graph where the configuration says "auto".

    Where nothing fits in memory and K is "auto", there are more subgraphs than the graph's size asks for.

    Args:
        config: what to build.
        data: the dataset where it is loaded already.

    Raises:
        ValueError: when the configuration does not suit the data, or the training would not fit in memory.
    """
    device = choose_device(config.device)
    data = build_data(config) if data is None else data
    free = config.partition.k == "auto" and not config.partition.file
    config = resolve(config, data)
    k = int(config.partition.k)

    def divided(parts: int) -> Built:
        return _build(replace(config, partition=replace(config.partition, k=parts)), data, device)

    return build_within_memory(divided, k, most_parts(data, data.num_nodes) if free else k)


def _build(config: Config, data: Data, device: torch.device) -> Built:
    """The objects of a resolved configuration."""
    partition = build_partition(config, data)
    plan = build_plan(config, data, partition, str(device))
    width = int(config.model.hidden_channels)
    arguments = model_arguments(data, plan, width, model_options(config), seed=config.seed)
    features = data.get("x") if config.model.embedding_start == "features" else None
    model = GPNN(**arguments, features=features).to(device)
    engine = build_engine(config, data, plan, model)
    config = replace(config, engine=engine.name)
    if ENGINES[engine.name].maps_features and data.get("x") is not None:
        data = copy(data)
        data.x = map_features(data.x, config.disk)
    notes = take_notes(Facts.of(data, partition, config.model.message), data.get("remarks"))
    return Built(config, data, partition, plan, model, arguments, engine, notes)


def build_data(config: Config, vocabulary: Vocabulary | None = None) -> Data:
    """The dataset, checked; tables keep the meaning that a vocabulary gives them."""
    settings = config.data
    data = load_dataset(settings.name, root=settings.root or None, vocabulary=vocabulary, **settings.options)
    return transform_data(data, undirected=settings.undirected, scale_features=settings.scale_features)


def resolve(config: Config, data: Data) -> Config:
    """The configuration with what is "auto" chosen for the graph: K, rounds, channels, decay, scale of the features.

    Raises:
        ValueError: when there are no classes to learn from.
    """
    if data.get("y") is None:
        raise ValueError("A training needs labels: a column `label` of the nodes, or `y`. Got none.")
    check_trainable(data.y, data.get("class_names"))
    if data.num_classes < 2 and data.y.dim() == 1:
        only = shorten((data.get("class_names") or ["one"])[0])
        raise ValueError(f"A training needs at least two classes to tell apart. Got {only} alone.")
    config = resolve_structure(config, data)
    sizes = Sizes(1, 1, config.model.hidden_channels).resolve(data)
    model = replace(config.model, hidden_channels=int(sizes.hidden_channels))
    if config.data.scale_features == "auto":  # a later graph is scaled like this one
        config = replace(config, data=replace(config.data, scale_features=choose_scale(data.get("x"))))
    return replace(config, model=model, train=resolve_recipe(config.train, data))


def resolve_structure(config: Config, data: Data) -> Config:
    """The configuration with K and rounds chosen for the graph where they are "auto"; it needs no labels."""
    sizes = Sizes(config.partition.k, config.schedule.rounds, 1).resolve(data)
    return replace(
        config,
        partition=replace(config.partition, k=int(sizes.k)),
        schedule=replace(config.schedule, rounds=int(sizes.rounds)),
    )


def build_partition(config: Config, data: Data) -> Partition | None:
    """The partition that the schedule asks for: from its file, or made by its method."""
    if not needs_partition(config.schedule.name):
        return None
    settings = config.partition
    if settings.file:
        return Partition.load(settings.file)
    return partition_graph(data, int(settings.k), settings.method, config.seed, **settings.options)


def build_schedule(config: Config, data: Data, partition: Partition | None) -> Schedule:
    """The schedule of a resolved configuration."""
    settings = config.schedule
    return make_schedule(
        settings.name,
        data,
        partition,
        rounds=int(settings.rounds),
        seed=config.seed,
        options=settings.options,
    )


def build_plan(config: Config, data: Data, partition: Partition | None, device: str) -> Plan:
    """The schedule of a resolved configuration, lowered."""
    schedule = build_schedule(config, data, partition)
    settings = config.schedule
    return lower(data, schedule, device, settings.normalization, self_loops=settings.self_loops)


def build_engine(config: Config, data: Data, plan: Plan, model: GPNN) -> EngineChoice:
    """How the training is run; the model takes its runner.

    Raises:
        ValueError: when the training would not fit in memory.
    """
    memory = None if config.memory == "auto" else config.memory * 1e9
    choice = choose_engine(
        model, data.get("x"), plan, config.train, engine=config.engine, memory=memory, folder=config.disk or None
    )
    model.runner = choice.runner
    return choice


def rebuild(
    config: Config, model: GPNN, arguments: Mapping[str, Any], data: Data, partition: Partition | None = None
) -> tuple[GPNN, Plan]:
    """A trained run's model on its device, and the plan of a graph, maybe a new one, under its schedule.

    Without a partition the graph is divided anew; where it has fewer nodes than the run's K, into as many subgraphs as
    nodes to seed them.

    Raises:
        ValueError: when the graph does not suit the model.
    """
    device = choose_device(config.device)
    x = data.get("x")
    width = 0 if x is None else x.shape[1]
    if arguments["input"] != "embedding" and width != arguments["in_channels"]:
        raise ValueError(f"The graph must have the run's {arguments['in_channels']} features. Got {width}.")
    if "num_nodes" in arguments and data.num_nodes != arguments["num_nodes"]:
        raise ValueError(
            f"A run with embeddings predicts on its own graph of {arguments['num_nodes']} nodes only "
            f"(train with model.input=features to predict on others). Got {data.num_nodes} nodes."
        )
    if partition is None:
        parts = most_parts(data, int(config.partition.k))
        partition = build_partition(replace(config, partition=replace(config.partition, k=parts)), data)
    plan = build_plan(config, data, partition, str(device))
    model.runner = "fused" if config.engine in ("auto", "fused") else "streamed"  # a pass that keeps nothing
    return model.to(device), plan


def model_options(config: Config) -> dict[str, Any]:
    """The settings of [model] that are the model's own arguments."""
    options = asdict(config.model)
    del options["embedding_start"], options["hidden_channels"]
    return options
