"""Runs of several processes: a dataset cut into shards, and objects built from one of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from gpnn.build.objects import Built, build_data, describe_sizes, model_options, pipeline_of, resolve
from gpnn.build.predict import describe_model
from gpnn.build.shard_data import read_data, shard_notes, write_data
from gpnn.build.unchanged import check_unchanged, load_run_config, record, settings_of
from gpnn.config import Config
from gpnn.distributed import (
    SHARD_SCHEDULES,
    ProcessGroup,
    Shard,
    ShardedPlan,
    ShardIndex,
    lower_shard,
    number_parts,
    read_shard,
)
from gpnn.distributed.parameters import own_names
from gpnn.graph import Graph
from gpnn.nn import GPNN
from gpnn.partition import Partition, partition_graph
from gpnn.pipeline import model_arguments
from gpnn.run.environment import describe_environment
from gpnn.run.folder import HistoryFile, RunFolder
from gpnn.run.known_nodes import RowDigests
from gpnn.run.predictions import known_labels, merge_predictions, predictions_table, split_names, write_predictions
from gpnn.schedule.make_schedule import needs_partition
from gpnn.sizes import choose_hidden, choose_rounds
from gpnn.storage.atomic import finite
from gpnn.train.evaluate import probabilities
from gpnn.train.fit import FitResult, Watcher, fit
from gpnn.train.recipe import resolve_recipe

if TYPE_CHECKING:
    from torch_geometric.data import Data


def prepare_shards(config: Config, num_shards: int, folder: Path) -> tuple[Config, ShardIndex]:
    """Load a dataset, divide it, and write a shard for each of `num_shards` processes.

    Args:
        config: which dataset and which partition.
        num_shards: number of shards; any number of processes can read them.
        folder: where to write.

    Returns:
        The configuration with sizes chosen, and the index of the folder.

    Raises:
        ValueError: when there are fewer subgraphs than shards.
    """
    data = build_data(config)
    config = resolve(config, data)
    return config, write_data(data, divide(config, data), num_shards, folder, name=config.data.name)


def divide(config: Config, data: Data) -> Partition:
    """The partition of a resolved configuration, whatever its schedule: processes own subgraphs."""
    settings = config.partition
    if settings.file:
        return Partition.load(settings.file)
    return partition_graph(data, int(settings.k), settings.method, config.seed, **settings.options)


def read_own(index: ShardIndex, group: ProcessGroup) -> tuple[Shard, Data]:
    """This process's shard and its nodes' features, labels and masks."""
    shard, columns = read_shard(index, group.rank, group.size)
    return shard, read_data(index, columns, shard.num_own)


def build_sharded(
    config: Config, index: ShardIndex, shard: Shard, data: Data, group: ProcessGroup, *, sharing: int = 1
) -> Built:
    """What this process needs of a training, from its own shard; collective.

    Args:
        config: what to build, `device` being this process's.
        index: of the folder of shards.
        shard: what this process owns.
        data: its nodes' features, labels and masks.
        group: the processes.
        sharing: how many of them share this machine's memory.

    Raises:
        ValueError: for a schedule that processes cannot make of their shards, an engine that they do not have, data
            without labels, or a share that does not fit in memory.
    """
    _check(config, index)
    config = replace(resolve_sizes(config, index), train=resolve_recipe(config.train, data))
    settings = config.schedule
    plan = lower_shard(
        shard,
        group,
        schedule=settings.name,
        rounds=int(settings.rounds),
        options=settings.options,
        device=config.device,
        normalization=settings.normalization,
        self_loops=settings.self_loops,
    )
    arguments = model_arguments(data, plan, int(config.model.hidden_channels), model_options(config), seed=config.seed)
    own: dict[str, Any] = {}
    if "num_nodes" in arguments:
        arguments["num_nodes"], own["nodes"] = index.totals.num_nodes, plan.nodes
    features = data.get("x") if config.model.embedding_start == "features" else None
    model = GPNN(**arguments, **own, features=features).to(config.device)
    engine = pipeline_of(config).choose_engine(model, data.get("x"), plan, config.train, sharing=sharing)
    model.runner = engine.runner
    notes = shard_notes(index, config.model.message)
    return Built(replace(config, engine=engine.name), data, None, plan, model, arguments, engine, notes)


def _check(config: Config, index: ShardIndex) -> None:
    name = config.schedule.name
    if name not in SHARD_SCHEDULES:
        known = ", ".join(SHARD_SCHEDULES)
        raise ValueError(f"Under several processes `schedule.name` must be one of {known}. Got {name!r}.")
    if config.disk:
        raise ValueError(f"Several processes keep states in memory: `disk` must be empty. Got {config.disk!r}.")
    if index.facts.get("num_classes") is None:
        raise ValueError("The shards must have labels to learn from. Got none.")


def create_sharded_run(
    config: Config, index: ShardIndex, path: Path, device: torch.device, num_processes: int
) -> RunFolder:
    """The run folder of a training by several processes."""
    began = {"processes": num_processes, **_digests(index), "settings": settings_of(config)}
    environment = finite(describe_environment(device) | began)
    files = {"config.toml": config.to_toml(), "environment.json": json.dumps(environment, indent=2) + "\n"}
    return RunFolder.create(path, files)


def check_shards(run: RunFolder, index: ShardIndex) -> None:
    """Raise ValueError where a run began with other data or other subgraphs than the shards have."""
    check_unchanged(run, _digests(index), load_run_config(run), str(index.folder))


def record_shards(run: RunFolder, index: ShardIndex | None) -> None:
    """Note the shards that a run goes on with from now on; None where they are about to be written."""
    record(run, shards_sha256=None if index is None else index.sha256)


def _digests(index: ShardIndex) -> dict[str, str]:
    """Of the data, its subgraphs and all files; folders of older versions tell only the last."""
    names = ("data_sha256", "partition_sha256")
    return {name: index.facts[name] for name in names if name in index.facts} | {"shards_sha256": index.sha256}


def train_sharded_run(run: RunFolder, built: Built, watchers: Sequence[Watcher] = ()) -> FitResult:
    """Train together, from the run's checkpoint where there is one; the first process writes the run folder.

    Predictions stand in the order of nodes, but for those of very large graphs, which stand shard after shard.
    """
    plan = cast(ShardedPlan, built.plan)
    leads = plan.group.rank == 0
    result = fit(
        built.model,
        built.data,
        plan,
        recipe=built.config.train,
        seed=built.config.seed,
        checkpoint=run.checkpoint,
        watchers=[*([HistoryFile(run)] if leads else []), *watchers],
    )
    if result.problem is not None and leads:
        run.write_failure(result.problem)
    if result.metrics:
        _finish(run, built, plan, result)
    return result


def _finish(run: RunFolder, built: Built, plan: ShardedPlan, result: FitResult) -> None:
    """Write predictions, weights and, last of all, metrics."""
    data, names = built.data, built.data.get("class_names")
    multi_label = data.y.dim() == 2
    assert result.logits is not None
    likely = probabilities(result.logits, multi_label=multi_label)
    weights = _whole_weights(built, plan)
    nodes = plan.shard.nodes.numpy()
    ids = nodes if data.get("node_name") is None else data.node_name
    also = {"labelled": known_labels(data), "split": split_names(data), "row": nodes}
    if needs_partition(built.config.schedule.name):
        also["subgraph"] = number_parts(plan.shard, None, plan.group).parts[: len(nodes)].numpy()
    table = predictions_table(likely.cpu(), nodes=ids, classes=names, also=also)
    metrics = result.metrics | describe_sizes(built)
    with plan.group.workplace(run.predictions) as place:
        parts = [place / f"{rank}.parquet" for rank in range(plan.group.size)]
        write_predictions(table, parts[plan.group.rank])
        plan.group.barrier()
        if plan.group.rank == 0:
            rows = data.get("row_digests")
            digests = None if rows is None else RowDigests.parse(rows, "shards.json")
            merge_predictions(parts, run.predictions)
            run.write_model(weights, describe_model(built, digests, run.predictions))
            run.write_metrics(metrics)
        plan.group.barrier()


def _whole_weights(built: Built, plan: ShardedPlan) -> dict[str, Tensor]:
    """In the first process the weights of all; embeddings in the order of the user's nodes."""
    weights = dict(built.model.state_dict())
    for name in own_names(built.model):
        places, rows = plan.group.gather(plan.shard.nodes), plan.group.gather(weights[name].cpu())
        if plan.group.rank == 0:
            whole = torch.empty(plan.shard.totals.num_nodes, *rows[0].shape[1:], dtype=rows[0].dtype)
            whole[torch.cat(places)] = torch.cat(rows)
            weights[name] = whole
    return weights


def resolve_sizes(config: Config, index: ShardIndex) -> Config:
    """The configuration with "auto" replaced by what :func:`gpnn.build.resolve` would choose, and the folder's K."""
    rounds, width = config.schedule.rounds, config.model.hidden_channels
    if rounds == "auto":
        rounds = choose_rounds(cast(Graph, index.totals))  # it asks for the two sizes only
    if width == "auto":
        width = choose_hidden(index.facts["num_classes"])
    return replace(
        config,
        partition=replace(config.partition, k=index.totals.num_parts),
        schedule=replace(config.schedule, rounds=rounds),
        model=replace(config.model, hidden_channels=width),
    )
