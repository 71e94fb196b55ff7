"""From configuration to objects: data by their names, all else by the pipeline of plain arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gpnn.build.shard_data import num_outputs, shard_notes
from gpnn.check import parse_memory
from gpnn.config import Config
from gpnn.data import load_dataset
from gpnn.data.features import choose_scale, feature_scale, transform_data
from gpnn.data.labels import check_trainable
from gpnn.data.tables.vocabulary import Vocabulary
from gpnn.distributed import SINGLE, ProcessGroup, Shard, ShardIndex, Totals, group_of
from gpnn.distributed.plan import own_names
from gpnn.engine import Plan
from gpnn.kernels.execution import choose_device
from gpnn.memory.engine import EngineChoice
from gpnn.nn import GPNN, NodeModel
from gpnn.partition import Partition
from gpnn.pipeline import Assembly, Pipeline
from gpnn.race.start import fit_trial
from gpnn.run.folder import RunFolder
from gpnn.train.baselines import baseline_note
from gpnn.train.fit import Callback, FitResult
from gpnn.train.notes import Note, overfitting_notes, take_notes, training_notes
from gpnn.train.recipe import Recipe, resolve_recipe
from gpnn.train.task import task_of
from gpnn.train.trainer import holds_logits

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class OwnShard:
    """What one process of a group builds from.

    Attributes:
        index: of the folder of shards.
        shard: the rows that this process owns.
        data: their features, labels and masks.
        group: the processes.
        device: of this process.
        sharing: how many of the processes share this machine's memory.
    """

    index: ShardIndex
    shard: Shard
    data: Data
    group: ProcessGroup
    device: torch.device
    sharing: int = 1


@dataclass(frozen=True, eq=False)
class Begun:
    """What a run begins with.

    Attributes:
        config: the configuration with sizes chosen for the graph.
        data: features, labels and masks.
        partition: the subgraphs, or None without.
        build_other: builds another configuration over the same data; collective.
        ready: the recipe whose objects are built already, where a race begins with one.
        own: this process's share of the graph, which `data` are the rows of; None: the whole graph.
    """

    config: Config
    data: Data
    partition: Partition | None
    build_other: Callable[[Config], Built] = field(kw_only=True)
    ready: str | None = field(default=None, kw_only=True)
    own: OwnShard | None = field(default=None, kw_only=True)

    @property
    def group(self) -> ProcessGroup:
        """The processes that train."""
        return SINGLE if self.own is None else self.own.group

    @property
    def device(self) -> torch.device:
        """Where this process trains."""
        return choose_device(self.config.device) if self.own is None else self.own.device


@dataclass(frozen=True, eq=False)
class Built(Begun):
    """The objects of one run.

    Attributes:
        config: the configuration with every "auto" replaced by what was chosen.
        data: features, labels and masks.
        partition: the subgraphs, or None under a schedule that needs none.
        plan: the lowered schedule.
        model: on the plan's device, at its initial weights.
        model_arguments: what the model was made of, as JSON holds it.
        engine: how the plan is run, and the memory that this is estimated to take.
        notes: what was decided on the user's behalf, and what is not used.
    """

    plan: Plan
    model: NodeModel
    model_arguments: dict[str, Any]
    engine: EngineChoice | None = None
    notes: Sequence[Note] = ()

    @property
    def recipe(self) -> Recipe:
        return self.config.train

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def again(self) -> Callable[[Recipe, int], Built]:
        """Builds the same for another recipe and seed; collective."""
        config, build_other = self.config, self.build_other  # neither holds the model
        return lambda recipe, seed: build_other(replace(config, train=recipe, seed=seed))

    @property
    def totals(self) -> Totals:
        """The sizes of the whole graph, over all processes."""
        if self.own is not None:
            return self.own.shard.totals
        parts = 1 if self.partition is None else self.partition.num_parts
        graph = self.data.get("graph")
        num_edges = self.data.num_edges if graph is None else graph.num_edges
        return Totals(self.data.num_nodes, num_edges, self.plan.num_edge_types, parts)

    def fit(self, checkpoint: Path, callbacks: Sequence[Callback] = ()) -> FitResult:
        """Train as configured, from a checkpoint where there is one; it then holds the end, or where it was stopped."""
        return fit_trial(self, checkpoint, callbacks)


def build(config: Config, data: Data | None = None) -> Built:
    """Everything a training needs, sizes chosen by the graph where the configuration says "auto".

    Args:
        config: what to build.
        data: the dataset where it is loaded already.

    Raises:
        ValueError: when the configuration does not suit the data, or the training would not fit in memory.
    """
    pipeline = pipeline_of(config)
    data = build_data(config) if data is None else data
    config = resolve(config, data)
    reported = holds_logits(data.num_nodes, task_of(data).num_outputs)
    made = pipeline.assemble(data, config.train, keep_schedule=reported)
    config = replace(config, engine=made.pipeline.engine)
    begun = Begun(config, data, None, build_other=lambda other: build(other, data))
    return _finish(begun, made, take_notes(made.facts, data.get("notes")))


def _finish(begun: Begun, made: Assembly, notes: Sequence[Note]) -> Built:
    """The objects of an assembly, and the configuration with what was chosen: sizes, and the scale of the targets."""
    made = made.resolve_target_scale()
    config = replace(_with_sizes(begun.config, made.pipeline), train=made.recipe)
    objects = (made.data, made.partition, made.plan, made.model, made.model_arguments, made.engine)
    return Built(config, *objects, [*notes, *made.notes], build_other=begun.build_other, own=begun.own)


def begin(config: Config) -> Begun:
    """What a race of one process begins with, its configuration's sizes chosen: the data; nothing to train is built.

    Raises:
        ValueError: when the configuration does not suit the data.
    """
    data = build_data(config)
    part = Partition.load(config.partition.file) if config.partition.file else None
    return Begun(resolve(config, data), data, part, build_other=lambda other: build(other, data))


def begin_shard(config: Config, own: OwnShard) -> Begun:
    """The same as :func:`begin` for one process of a group; collective.

    Raises:
        ValueError: when the shards have no labels.
    """
    num_outputs(own.index)  # refuses shards without labels
    if not own.group.any(own.data.get("train_mask") is not None and bool(own.data.train_mask.any()))[0]:
        raise ValueError("`train_mask` must hold at least one labelled node. Got none.")
    config = replace(config, train=resolve_recipe(config.train, own.data))

    def build_other(other: Config) -> Built:
        return own.group.run_on_all(lambda: build_shard(other, own))

    return Begun(config, own.data, None, build_other=build_other, own=own)


def build_shard(config: Config, own: OwnShard) -> Built:
    """What one process of a group needs of a training; collective.

    Raises:
        ValueError: when the configuration does not suit shards, they have no labels, or a share does not fit in memory.
    """
    begun = begin_shard(config, own)
    pipeline = replace(pipeline_of(begun.config), device=str(own.device))
    made = pipeline.assemble_shard(own.shard, own.data, own.group, begun.config.train, sharing=own.sharing)
    return _finish(begun, made, shard_notes(own.index, config.model.message))


def resolve_shards(config: Config, index: ShardIndex) -> Config:
    """The configuration with the K of a folder of shards, and other sizes chosen where they are "auto"."""
    return _with_sizes(config, pipeline_of(config).resolve_shards(index.totals, num_outputs(index)))


def pipeline_of(config: Config) -> Pipeline:
    """The plain arguments of a configuration."""
    partition, schedule = config.partition, config.schedule
    return Pipeline(
        partition=partition.method,
        k=partition.k,
        partition_file=partition.file or None,
        partition_options=partition.options,
        schedule=schedule.name,
        rounds=schedule.rounds,
        schedule_options=schedule.options,
        normalization=schedule.normalization,
        self_loops=schedule.self_loops,
        hidden_channels=config.model.hidden_channels,
        model=config.model.name,
        model_options=model_options(config),
        embedding_start=config.model.embedding_start,
        seed=config.seed,
        device=config.device,
        engine=config.engine,
        memory=parse_memory("memory", config.memory),
        device_memory=parse_memory("device_memory", config.device_memory),
        disk=config.disk or None,
    )


def build_data(config: Config, vocabulary: Vocabulary | None = None) -> Data:
    """The dataset, checked; tables keep the meaning that a vocabulary gives them."""
    settings = config.data
    data = load_dataset(settings.name, root=settings.root or None, vocabulary=vocabulary, **settings.options)
    return transform_data(data, undirected=settings.undirected, scale_features=settings.scale_features)


def resolve(config: Config, data: Data) -> Config:
    """The configuration with what is "auto" chosen for the graph: K, rounds, channels, decay, scale of the features.

    Raises:
        ValueError: when there are no labels to learn from.
    """
    if data.get("y") is None:
        raise ValueError("A training needs labels: a column `label` of the nodes, or `y`. Got none.")
    if config.data.options.get("edge_features"):
        raise ValueError(
            "`data.edge_features` must be left out: the models of this command take no features of edges, as "
            f"`gpnn.nn.Scheduled` does in Python. Got {config.data.options['edge_features']!r}."
        )
    check_trainable(data.y, data.get("class_names"))
    task_of(data).check(data.get("class_names"))
    config = _with_sizes(config, pipeline_of(config).resolve(data))
    if config.data.scale_features == "auto":  # a later graph is scaled like this one
        config = replace(config, data=replace(config.data, scale_features=choose_scale(data.get("x"))))
    return replace(config, train=resolve_recipe(config.train, data))


def resolve_structure(config: Config, data: Data) -> Config:
    """The configuration with K, rounds and schedule chosen for the graph where they are "auto"; it needs no labels."""
    return _with_sizes(config, pipeline_of(config).resolve_structure(data).resolve_schedule(data.num_nodes))


def _with_sizes(config: Config, chosen: Pipeline) -> Config:
    """The configuration with the sizes of resolved arguments, and with their schedule."""
    options = dict(chosen.schedule_options)
    return replace(
        config,
        partition=replace(config.partition, k=chosen.k),
        schedule=replace(config.schedule, name=chosen.schedule, rounds=chosen.rounds, options=options),
        model=replace(config.model, hidden_channels=chosen.hidden_channels),
    )


def rebuild(
    config: Config, model: NodeModel, arguments: Mapping[str, Any], data: Data, partition: Partition | None = None
) -> tuple[NodeModel, Plan]:
    """A trained run's model on its device, and the plan of a graph, maybe a new one, under its schedule.

    Without a partition the graph is divided anew; where it has fewer nodes than the run's K, into as many subgraphs as
    nodes to seed them.

    Raises:
        ValueError: when the graph does not suit the model.
    """
    device = choose_device(config.device)
    x = data.get("x")
    width = 0 if x is None else x.shape[1]
    if arguments.get("input") != "embedding" and width != arguments["in_channels"]:
        raise ValueError(f"The graph must have the run's {arguments['in_channels']} features. Got {width}.")
    known = model.embedding.weight.shape[0] if isinstance(model, GPNN) and model.embedding is not None else None
    if known not in (None, data.num_nodes):
        raise ValueError(
            f"A run with embeddings predicts on its own graph of {known} nodes only "
            f"(train with model.input=features to predict on others). Got {data.num_nodes} nodes."
        )
    plan = pipeline_of(config).lower_again(data, partition)
    if isinstance(model, GPNN):
        model.runner = "fused" if config.engine in ("auto", "fused") else "streamed"  # a pass that keeps nothing
        model.set_feature_scale(feature_scale(data))
    return model.to(device), plan


def model_options(config: Config) -> dict[str, Any]:
    """The settings of [model] that are the model's own arguments."""
    options = asdict(config.model)
    columns = {name: options.pop(name) for name in ("method", "labels")}
    del options["name"], options["embedding_start"], options["hidden_channels"]
    return columns if config.model.name == "columns" else options


def history_notes(run: RunFolder, built: Built) -> list[Note]:
    """The notes that follow from a finished run's history, and from what plain methods reach."""
    found = baseline_note(run.read_metrics(), run.read_baselines(), raced=run.race.exists())
    history, better = run.read_history(), [] if found is None else [found]
    return [*training_notes(history, task_of(built.data).chance), *overfitting_notes(history), *better]


def describe_sizes(built: Built) -> dict[str, Any]:
    """How large a run was, over all processes; messages and updates are those of an epoch, over all its passes."""
    passes, totals = built.config.train.passes, built.totals
    counts = {name: each.numel() for name, each in built.model.named_parameters()}
    own = sum(counts.pop(name) for name in own_names(built.model))
    return {
        "num_messages": built.plan.num_messages * passes,
        "num_updates": built.plan.num_updates * passes,
        "task": task_of(built.data).name,
        "num_nodes": totals.num_nodes,
        "num_edges": totals.num_edges,
        "num_parts": totals.num_parts,
        "num_rounds": built.plan.num_rounds,
        "num_parameters": int(group_of(built.plan).all_reduce(torch.tensor(own))) + sum(counts.values()),
        "seed": built.config.seed,
    }
