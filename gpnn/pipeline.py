"""The one assembly of a training: data -> partition -> schedule -> plan -> model -> runner, with plain arguments.

The command line, the estimators, the experiments and the processes of torchrun all use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from gpnn.check import check_choice, check_options
from gpnn.data.check import check_edge_attributes
from gpnn.data.features import column_moments, feature_scale, float_features, have_units, map_features
from gpnn.distributed import SHARD_SCHEDULES, ProcessGroup, Shard, Totals, lower_shard
from gpnn.engine import Plan, lower
from gpnn.graph import as_graph
from gpnn.kernels.execution import choose_device
from gpnn.memory.available import available_bytes, limit_device
from gpnn.memory.engine import ENGINES, EngineChoice, build_within_memory, check_memory, choose_engine
from gpnn.memory.estimate import estimate_columns
from gpnn.nn import GPNN, ColumnModel, NodeModel, build_model
from gpnn.nn.soft_schedule import make_soft_schedule
from gpnn.partition import Partition, partition_graph
from gpnn.partition.partition import training_nodes
from gpnn.schedule import Schedule
from gpnn.schedule.make_schedule import (
    choose_hidden,
    choose_parts,
    choose_rounds,
    choose_schedule,
    make_schedule,
    needs_partition,
)
from gpnn.schedule.partitioned import KINDS
from gpnn.train.check_recipe import check_recipe
from gpnn.train.column_settings import column_arguments
from gpnn.train.fit import resolve_target_scale
from gpnn.train.learn_partition import Classifier, PartitionRecipe, learn_partition
from gpnn.train.notes import Facts, Note
from gpnn.train.recipe import Recipe
from gpnn.train.task import task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

Auto = Literal["auto"]
MOST_TYPES = 8  # of edges, that have a map of their own where that is chosen for the graph
ROOMY = 0.4  # of the memory there is: a training that takes less keeps what it frees
MOST_KEPT = 4e9  # bytes of one whose steps kernels take: these use their memory again themselves
GIVEN = ("kinds", "num_rounds", "num_edge_types", "num_nodes", "nodes", "features", "seed")  # by graph and plan
MODEL_OPTIONS = [name for name in [*signature(GPNN).parameters][3:] if name not in GIVEN]
LEARNED = "learned"  # the partition that is trained, beside those of gpnn.partition.PARTITIONERS


@dataclass(frozen=True)
class Sizes:
    """The sizes of a training: K subgraphs, T rounds, d hidden channels."""

    k: int | Auto
    rounds: int | Auto
    hidden_channels: int | Auto


@dataclass(frozen=True, eq=False)
class Assembly:
    """The objects of one training.

    Attributes:
        pipeline: the arguments, with every "auto" replaced by what was chosen.
        data: features, labels and masks; features in files where the engine has them there.
        partition: the subgraphs, or None under a schedule that needs none.
        plan: the lowered schedule.
        model: on the plan's device, at its initial weights, with its runner.
        model_arguments: what the model was made of, as JSON holds it.
        engine: how the plan is run and the memory that this is estimated to take; None for a runner of the model's own.
        recipe: how the model is to be trained.
        again: assembles the same for another recipe and seed, with the arguments that were chosen.
        notes: what was decided on the user's behalf.
    """

    pipeline: Pipeline
    data: Data
    partition: Partition | None
    plan: Plan
    model: NodeModel
    model_arguments: dict[str, Any]
    engine: EngineChoice | None
    recipe: Recipe
    again: Callable[[Recipe, int], Assembly]
    notes: tuple[Note, ...] = ()

    @property
    def seed(self) -> int:
        return self.pipeline.seed

    def resolve_target_scale(self) -> Assembly:
        """The same with the scale of the targets chosen where the recipe has it "auto"; collective."""
        return replace(self, recipe=resolve_target_scale(self.model, self.data, self.plan, self.recipe, self.seed))

    @property
    def facts(self) -> Facts:
        """What notes on the data follow from."""
        sends = isinstance(self.model, GPNN) and self.plan.num_messages > 0
        return Facts.of(self.data, self.partition, self.model_arguments.get("message", "identity"), sends=sends)


@dataclass(frozen=True)
class Pipeline:
    """The arguments of an assembly; sizes at "auto" follow the graph (:mod:`gpnn.schedule.make_schedule`).

    Attributes:
        partition: a name of :data:`gpnn.partition.PARTITIONERS`, or "learned": trained with the model and schedule at
            hand (:func:`gpnn.train.learn_partition.learn_partition`).
        k: number of subgraphs K, or "auto".
        partition_file: a saved partition to take instead, or None.
        partition_options: the partitioner's own.
        schedule: a name of :data:`gpnn.schedule.SCHEDULES`, or "auto"; options that are given are then the partition
            schedule's.
        rounds: number of rounds T, or "auto".
        schedule_options: the schedule's own, such as `intra` and `cut`.
        normalization: a rule of :mod:`gpnn.engine.normalize`.
        self_loops: send every node a message from itself, too.
        hidden_channels: width d of the states, or "auto".
        model: a name of :data:`gpnn.nn.MODELS`.
        model_options: further arguments of :class:`gpnn.nn.GPNN`, where those at "auto" follow the cell and the graph,
            or of :func:`gpnn.train.column_settings.column_arguments`.
        embedding_start: "features": embeddings start from the features where there are any; "random".
        seed: of partition, schedule and weights.
        device: "auto", "cpu", "cuda" or "cuda:N".
        engine: "auto" or a name of :data:`gpnn.memory.engine.ENGINES`.
        memory: bytes that the process may take, or None: most of what is free.
        device_memory: bytes that it may take of a GPU, which is then held to them, or None: most of what is free there.
        disk: folder where states and features may lie in files, or None.
    """

    partition: str = "flood_fill"
    k: int | Auto = "auto"
    partition_file: str | None = None
    partition_options: Mapping[str, Any] = field(default_factory=dict)
    schedule: str = "partitioned"
    rounds: int | Auto = "auto"
    schedule_options: Mapping[str, Any] = field(default_factory=dict)
    normalization: str = "phase"
    self_loops: bool = False
    hidden_channels: int | Auto = "auto"
    model: str = "gpnn"
    model_options: Mapping[str, Any] = field(default_factory=dict)
    embedding_start: str = "features"
    seed: int = 0
    device: str = "auto"
    engine: str = "auto"
    memory: float | None = None
    device_memory: float | None = None
    disk: str | None = None

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.k, self.rounds, self.hidden_channels)

    def resolve_structure(self, data: Data) -> Pipeline:
        """The same with K and rounds chosen for the graph where they are "auto"; it needs no labels."""
        k, rounds = self.k, choose_rounds(as_graph(data)) if self.rounds == "auto" else self.rounds
        if k == "auto":
            schedule = replace(self, rounds=rounds).resolve_schedule(data.num_nodes).schedule
            held, on_gpu = schedule == "held_cut" and self._streams, choose_device(self.device).type == "cuda"
            k = most_parts(data, choose_parts(data.num_nodes, on_gpu=on_gpu, held=held))
        return replace(self, k=k, rounds=rounds)

    def resolve_shards(self, totals: Totals, num_outputs: int) -> Pipeline:
        """The same with the K of a graph that is divided, and other sizes chosen for it where they are "auto"."""
        rounds = choose_rounds(totals) if self.rounds == "auto" else self.rounds
        width = choose_hidden(num_outputs) if self.hidden_channels == "auto" else self.hidden_channels
        return replace(self, k=totals.num_parts, rounds=rounds, hidden_channels=width)

    def resolve_schedule(self, num_nodes: int, num_processes: int = 1) -> Pipeline:
        """The same with a schedule chosen where it is "auto", for the whole graph's nodes; rounds must be known.

        An engine that streams counts where it is named: what is learnt must not follow from the memory that is free.
        """
        if self.schedule != "auto":
            return self
        if self.schedule_options:
            return replace(self, schedule="partitioned")
        made = choose_schedule(num_nodes, int(self.rounds), num_processes=num_processes, streamed=self._streams)
        return replace(self, schedule=made.name, rounds=made.rounds, schedule_options=made.options)

    @property
    def _streams(self) -> bool:
        return self.engine not in ("auto", "fused")

    def resolve(self, data: Data) -> Pipeline:
        """The same with all sizes chosen for the graph where they are "auto"."""
        width = choose_hidden(task_of(data).num_outputs) if self.hidden_channels == "auto" else self.hidden_channels
        return replace(self.resolve_structure(data), hidden_channels=width)

    def assemble(self, data: Data, recipe: Recipe, *, keep_schedule: bool = True) -> Assembly:
        """Everything that a training needs.

        Where nothing fits in memory and K is "auto", there are more subgraphs than the graph's size suggests.

        Args:
            data: features, labels and masks.
            recipe: how the model will be trained.
            keep_schedule: whether the plan holds its schedule, as reports need it, or its arrays alone.

        Raises:
            ValueError: when the arguments do not suit the data, or the training would not fit in memory.
        """
        check_edge_attributes(data)
        free = self.k == "auto" and self.partition_file is None
        resolved = self.resolve(data).resolve_schedule(data.num_nodes)
        k = int(resolved.k)

        def divided(parts: int) -> Assembly:
            return replace(resolved, k=parts)._assemble(data, recipe, keep_schedule)

        made = build_within_memory(divided, k, most_parts(data, data.num_nodes) if free else k)
        return replace(made, notes=_schedule_notes(self, resolved, f"the engine {self.engine}"))

    def assemble_shard(
        self, shard: Shard, data: Data, group: ProcessGroup, recipe: Recipe, *, sharing: int = 1
    ) -> Assembly:
        """What one process of a group needs of a training; collective.

        Args:
            shard: the rows that this process owns.
            data: their features, labels and masks.
            group: the processes.
            recipe: how the model will be trained.
            sharing: how many of the processes share this machine's memory.

        Raises:
            ValueError: when the arguments do not suit shards, or this process's share does not fit in memory.
        """
        if self.model != "gpnn":
            raise ValueError(f"Several processes train the model 'gpnn' alone. Got {self.model!r}.")
        check_choice("schedule", self.schedule, ("auto", *SHARD_SCHEDULES))
        if self.disk is not None:
            raise ValueError(f"Shards keep their states in memory: `disk` must be empty. Got {self.disk!r}.")
        sized, num_nodes = self.resolve_shards(shard.totals, task_of(data).num_outputs), shard.totals.num_nodes
        resolved = sized.resolve_schedule(num_nodes, group.size)
        plan = lower_shard(
            shard,
            group,
            schedule=resolved.schedule,
            rounds=int(resolved.rounds),
            options=resolved.schedule_options,
            device=choose_device(self.device),
            normalization=self.normalization,
            self_loops=self.self_loops,
        )
        model, arguments = resolved.make_model(data, plan, num_nodes)
        assert isinstance(model, GPNN)
        check_recipe(recipe, model, data, group.size)
        choice = resolved.choose_engine(model, data.get("x"), plan, recipe, sharing=sharing)
        model.runner = choice.runner
        notes = _schedule_notes(self, resolved, f"{group.size} processes")

        def again(recipe: Recipe, seed: int) -> Assembly:
            return replace(resolved, seed=seed).assemble_shard(shard, data, group, recipe, sharing=sharing)

        return Assembly(resolved, data, None, plan, model, arguments, choice, recipe, again, notes)

    def divide(self, data: Data) -> Partition | None:
        """The partition that the schedule needs: from its file, or made by its method."""
        return self.make_partition(data) if needs_partition(self.schedule) else None

    def make_partition(self, data: Data) -> Partition:
        """The partition, whatever the schedule; where a graph has few nodes to seed subgraphs with, K is as many."""
        if self.partition_file is not None:
            return Partition.load(self.partition_file)
        if self.partition == LEARNED:
            return self._learn_partition(data)
        options = dict(self.partition_options)
        if self.partition in ("auto", "clustered"):  # which gives the same parts on every device
            options.setdefault("device", str(choose_device(self.device)))
        return partition_graph(data, int(self.k), self.partition, self.seed, **options)

    def _learn_partition(self, data: Data) -> Partition:
        """The partition trained with the model and the schedule of the arguments; by the cut alone without labels."""
        labelled, classifier = training_nodes(data) is not None and data.get("y") is not None, None
        chosen = (self.resolve(data) if labelled else self.resolve_structure(data)).resolve_schedule(data.num_nodes)
        if labelled:
            plan = chosen.lower(data, Partition(torch.zeros(data.num_nodes, dtype=torch.int64), 1))
            model = chosen.make_model(data, plan)[0]
            assert isinstance(model, GPNN)  # other models need no partition
            classifier = Classifier(model, plan)
        schedule = make_soft_schedule(
            chosen.schedule,
            as_graph(data),
            int(chosen.rounds),
            options=chosen.schedule_options,
            normalization=self.normalization,
            self_loops=self.self_loops,
            device=choose_device(self.device),
        )
        recipe = PartitionRecipe(**self.partition_options)
        return learn_partition(data, int(chosen.k), schedule, classifier=classifier, recipe=recipe, seed=self.seed)

    def make_schedule(self, data: Data, part: Partition | None) -> Schedule:
        """The schedule over a partition."""
        options = self.schedule_options
        return make_schedule(self.schedule, data, part, rounds=int(self.rounds), seed=self.seed, options=options)

    def lower(self, data: Data, part: Partition | None) -> Plan:
        """The schedule over a partition, lowered to the device."""
        schedule, device = self.make_schedule(data, part), choose_device(self.device)
        return lower(data, schedule, device, self.normalization, self_loops=self.self_loops)

    def lower_again(self, data: Data, part: Partition | None) -> Plan:
        """The plan of a graph after the training, maybe a new one; without a partition it is divided anew.

        Where the graph has fewer nodes than K to seed subgraphs with, there are as many subgraphs as these.
        """
        return self.lower(data, self.divide_again(data) if part is None else part)

    def divide_again(self, data: Data) -> Partition | None:
        """The partition of a graph after the training, into at most as many subgraphs as there are nodes to seed."""
        return replace(self, k=most_parts(data, int(self.k))).divide(data)

    def make_model(self, data: Data, plan: Plan, num_nodes: int | None = None) -> tuple[NodeModel, dict[str, Any]]:
        """The model for a plan, on its device, and its arguments as JSON holds them.

        Args:
            data: features and labels of the plan's nodes.
            plan: of the whole graph, or of the nodes that this process owns.
            num_nodes: nodes of the whole graph, where the plan is a process's share.
        """
        if self.model == "columns":
            arguments = {"model": "columns", **column_arguments(data, hops=plan.num_rounds, **self._column_options())}
            return build_model(arguments).to(plan.device), arguments
        width = int(self.hidden_channels)
        arguments = model_arguments(data, plan, width, self.model_options, seed=self.seed)
        starts = arguments["input"] != "features" and self.embedding_start == "features"
        own: dict[str, Any] = {"features": float_features(data) if starts else None}
        if num_nodes is not None and "num_nodes" in arguments:
            arguments["num_nodes"], own["nodes"] = num_nodes, plan.nodes
        model = build_model(arguments, **own)
        assert isinstance(model, GPNN)
        model.set_feature_scale(feature_scale(data))
        if arguments.get("standardize"):
            model.set_feature_moments(*column_moments(data.x))
        return model.to(plan.device), arguments

    def _column_options(self) -> dict[str, Any]:
        check_options("the model 'columns'", self.model_options, ("method", "labels"))
        return dict(self.model_options)

    def _assemble(self, data: Data, recipe: Recipe, keep_schedule: bool) -> Assembly:
        """The objects of resolved arguments."""
        part, given = self.divide(data), data
        plan = self.lower(data if keep_schedule else self._place_graph(data), part)
        model, arguments = self.make_model(data, plan)
        check_recipe(recipe, model, data)
        choice, engine = None, self.engine
        if isinstance(model, ColumnModel):
            if engine == "auto":
                check_memory(f"The columns of {data.num_nodes:,} nodes", estimate_columns(model, data), self.memory)
            engine = "fused"
        elif model.runner is None:  # a runner among the model's options is taken as it is
            rows, train = most_rows(data), training_nodes(data)
            choice = self.choose_engine(model, data.get("x"), plan, recipe, rows=rows, train=train)
            model.runner, data, engine = choice.runner, self._map_features(data, choice), choice.name
            if not keep_schedule and not recipe.batch:  # mini-batches read the graph
                plan = plan.build("fused" if choice.name == "fused" else "streamed")
        chosen = replace(self, engine=engine)

        def again(recipe: Recipe, seed: int) -> Assembly:
            return replace(chosen, seed=seed).assemble(given, recipe, keep_schedule=keep_schedule)

        return Assembly(chosen, data, part, plan, model, arguments, choice, recipe, again)

    def _place_graph(self, data: Data) -> Data:
        """The data, the rows of its graph on the device, where they are counted and lowered sooner."""
        graph, device = data.get("graph"), choose_device(self.device)
        if device.type == "cpu" or graph is None or graph.rows is None:
            return data
        data = copy(data)
        data.graph = graph.to(device)
        return data

    def choose_engine(
        self,
        model: GPNN,
        x: Tensor | None,
        plan: Plan,
        recipe: Recipe,
        *,
        sharing: int = 1,
        rows: int | None = None,
        train: Tensor | None = None,
    ) -> EngineChoice:
        """How a plan is run, by the engine, memory and disk of the arguments.

        `sharing` processes share the machine; an epoch takes the outputs of at most `rows` nodes, and its loss those
        of `train`.
        """
        if self.device_memory is not None:
            limit_device(plan.device, self.device_memory)
        choice = choose_engine(
            model,
            x,
            plan,
            recipe,
            engine=self.engine,
            memory=self.memory,
            device_memory=self.device_memory,
            folder=self.disk,
            sharing=sharing,
            rows=rows,
            train=train,
        )
        room = available_bytes(sharing=sharing) if self.memory is None else self.memory
        by_kernel = getattr(model.cell, "steps_by_kernel", False)
        most = min(ROOMY * room, MOST_KEPT if by_kernel else math.inf)
        model.keeps_freed = plan.device.type == "cpu" and choice.estimate.peak <= most
        if model.keeps_freed and not by_kernel and choice.name == "fused":
            choice = replace(choice, estimate=choice.estimate.keeping_freed())
        return choice

    def _map_features(self, data: Data, choice: EngineChoice) -> Data:
        """The data, its features in files where the engine has them there."""
        if not ENGINES[choice.name].maps_features or data.get("x") is None or self.disk is None:
            return data
        data = copy(data)
        data.x = map_features(data.x, self.disk)
        return data


def _schedule_notes(asked: Pipeline, chosen: Pipeline, why: str) -> tuple[Note, ...]:
    """The note on a schedule that was "auto" and is not the paper's."""
    if asked.schedule != "auto" or chosen.schedule == "partitioned":
        return ()
    held = f"schedule {chosen.schedule}, {chosen.rounds} rounds of {chosen.schedule_options['intra']} steps"
    what = f"{held}, is taken for a large graph and {why}: messages over the cut are sent once per round"
    return (Note(what, "schedule.name=partitioned takes the paper's", 'schedule="partitioned" takes the paper\'s'),)


def most_rows(data: Data) -> int | None:
    """The nodes of the largest split: an epoch takes the outputs of one split at a time; None: there are no splits."""
    masks = [data.get(f"{split}_mask") for split in ("train", "val")]
    return max((int(mask.sum()) for mask in masks if mask is not None), default=None)


def most_parts(data: Data, k: int) -> int:
    """`k`, or as many subgraphs as the graph has nodes to seed them with: its training nodes, else all."""
    candidates = training_nodes(data)
    return min(k, data.num_nodes if candidates is None else candidates.numel())


def model_arguments(
    data: Data, plan: Plan, hidden_channels: int, options: Mapping[str, Any], *, seed: int = 0
) -> dict[str, Any]:
    """The arguments of :class:`gpnn.nn.GPNN` for a graph, as JSON holds them.

    Options that are missing or "auto" are chosen by :func:`resolve_options`.
    """
    check_options("the model 'gpnn'", options, MODEL_OPTIONS)
    x = data.get("x")
    arguments = resolve_options(options, has_features=x is not None, num_edge_types=plan.num_edge_types)
    if arguments.get("standardize", "auto") == "auto":
        arguments["standardize"] = arguments["predict"] != "features" and plan.nodes is None and have_units(x)
    if not arguments["standardize"]:  # as models of before, whose files do not have it
        del arguments["standardize"]
    elif x is None or x.layout != torch.strided:
        raise ValueError(f"`standardize` takes dense features. Got {'none' if x is None else 'sparse ones'}.")
    if arguments["input"] != "features":
        arguments["num_nodes"] = plan.num_nodes
    if arguments.get("sharing") == "kind" and not set(plan.kinds) <= set(KINDS):
        arguments["kinds"] = list(plan.kinds)
    return arguments | {
        "in_channels": 0 if x is None else x.shape[1],
        "hidden_channels": hidden_channels,
        "out_channels": task_of(data).num_outputs,
        "num_rounds": plan.num_rounds,
        "num_edge_types": plan.num_edge_types,
        "seed": seed,
    }


def resolve_options(options: Mapping[str, Any], *, has_features: bool, num_edge_types: int = 1) -> dict[str, Any]:
    """A model's options with those that are missing or "auto" chosen by its cell and by what the graph has.

    The linear cell predicts before it propagates and learns the weights of the rounds; cells with parameters
    propagate states, with the features beside the last one, as in the paper. A graph without features has embeddings.

    >>> resolve_options({"cell": "linear"}, has_features=True)["predict"]
    'before'
    """
    linear = options.get("cell") == "linear"
    automatic = {
        "input": "features" if has_features else "embedding",
        "predict": "before" if linear else "after",
        "activation": "relu" if linear else "identity",
        "concat": "features" if has_features and not linear else "none",
        "readout": "learned" if linear else "last",
    }
    chosen = dict(options)
    if options.get("message") == "auto":  # a map per type of edge
        chosen["message"] = "linear" if 1 < num_edge_types <= MOST_TYPES else "identity"
    chosen |= {name: value for name, value in automatic.items() if options.get(name, "auto") == "auto"}
    if linear and chosen["readout"] == "learned":  # its weights hold the initial state; no teleport besides
        chosen["cell_options"] = {"alpha": 0.0, **(chosen.get("cell_options") or {})}
    return chosen
