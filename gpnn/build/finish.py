"""The end of a training: predictions, weights and metrics of all processes, and those of a blend, written by rank 0."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.build.objects import Built, build, describe_sizes
from gpnn.build.predict import Member, Trained, describe_model, read_members
from gpnn.build.unchanged import digests_of, settings_of
from gpnn.check import parse_memory
from gpnn.data import recall_at_k
from gpnn.distributed import ShardedPlan, group_of, number_parts
from gpnn.distributed.plan import own_names
from gpnn.distributed.schedules import recall_of_shards
from gpnn.graph import as_graph
from gpnn.memory.available import available_bytes
from gpnn.memory.estimate import SOLVER_EDGE, SOLVER_ENTRY
from gpnn.race.halving import Limit
from gpnn.run.folder import RunFolder
from gpnn.run.known_nodes import RowDigests
from gpnn.run.predictions import (
    data_rows,
    known_labels,
    merge_predictions,
    node_types,
    predictions_table,
    split_names,
    true_labels,
    write_both,
    write_predictions,
)
from gpnn.schedule.make_schedule import needs_partition
from gpnn.storage.atomic import finite
from gpnn.storage.read import read_json
from gpnn.train.baselines import plain_baselines
from gpnn.train.blend import Blend, blend_predictions, keeps_shares
from gpnn.train.evaluate import predict_logits, predict_pieces
from gpnn.train.fit import FitResult
from gpnn.train.task import Prediction, Task

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


TABLE_ROWS = 1 << 20  # of a table of predictions that is made and written at one time


def finish_run(run: RunFolder, built: Built, result: FitResult, blend: Mapping[str, Any] | None = None) -> None:
    """Write predictions, weights and, last of all, metrics: where they stand the run is finished; collective.

    Predictions are in the order of nodes, but for those of very large graphs, which follow shard after shard. Where
    there are too many classes and nodes to hold a probability of each, they are the most likely class and its own.

    Args:
        run: the run folder.
        built: the objects of the run.
        result: what predictions and metrics are.
        blend: as of :func:`gpnn.build.predict.describe_model`.
    """
    assert result.task is not None
    group, task = group_of(built.plan), result.task
    weights, metrics = _whole_weights(built), result.metrics | describe_sizes(built) | _recall(built, result)
    tables = _tables(built, task, result.logits)

    def write() -> None:
        run.write_model(weights, describe_model(built, task, _row_digests(built), run.predictions, blend))
        run.write_metrics(metrics)

    if not isinstance(built.plan, ShardedPlan):
        write_both(tables, run.predictions, built.plan.num_nodes)
        write()
        return
    with group.staging_folder(run.predictions) as place:
        parts = [place / f"{rank}.parquet" for rank in range(group.size)]
        write_predictions(tables, parts[group.rank])
        group.barrier()
        if group.rank == 0:
            merge_predictions(parts, run.predictions)
            write()
        group.barrier()


def keep_training(run: RunFolder, built: Built, checkpoint: Path, adopt: Callable[[], None]) -> None:
    """Write model, predictions and metrics of a checkpoint's best weights as the run's; collective.

    Args:
        run: the run folder.
        built: the objects of a training that was stopped before the one that the run is for.
        checkpoint: as the training left it.
        adopt: makes the training's configuration the run's; called in rank 0, once results are there to write.
    """
    result, group = built.fit(checkpoint, [Limit(0)]), group_of(built.plan)
    if not result.metrics:
        return
    if group.rank == 0:
        adopt()
        run.rewrite_history(result.history)
    group.barrier()
    stopped: dict[str, Any] = {"stopped": "interrupted"}
    finish_run(run, built, replace(result, metrics=result.metrics | stopped, **stopped))


def write_baselines(run: RunFolder, built: Built) -> None:
    """Write what plain methods reach on the same data, where one process holds it and memory allows."""
    data, config = built.data, built.config
    free = min(parse_memory("memory", config.memory) or inf, available_bytes())
    if isinstance(built.plan, ShardedPlan) or _column_bytes(data) > free / 2:
        return
    run.write_baselines(plain_baselines(data, config.train, seed=config.seed))


def _column_bytes(data: Data) -> float:
    """Bytes of the features with their means over neighbours, and of what a solver holds besides, roughly."""
    x = data.get("x")
    entries = 0 if x is None else x.numel() if x.layout == torch.strided else x.values().numel()
    return SOLVER_ENTRY * entries + SOLVER_EDGE * as_graph(data).num_edges


def _tables(built: Built, task: Task, logits: Tensor | None) -> Iterator[pyarrow.Table]:
    """The predictions of this process's nodes, some at a time; a shard's with the number of each node as `row`.

    Without the logits of all nodes there is no column for the probability of each class.
    """
    plan, classes, subgraph = built.plan, built.data.get("class_names"), _subgraphs(built)
    own = None if plan.nodes is None else plan.nodes.cpu().numpy()  # numbers of a shard's nodes
    for rows, some in _pieces(built, logits):
        columns = task.columns(task.predict(some), classes, each=logits is not None)
        data, number = data_rows(built.data, rows), np.arange(rows.start, rows.stop) if own is None else own[rows]
        also = node_types(data) | {"split": split_names(data)}
        if isinstance(plan, ShardedPlan):
            also["row"] = number
        if subgraph is not None:
            also["subgraph"] = subgraph[rows]
        yield predictions_table(
            columns,
            nodes=data.get("node_name", number),
            labelled=known_labels(data),
            label=true_labels(data, classes),
            also=also,
        )


def _pieces(built: Built, logits: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """Ranges of this process's nodes and their logits, `[n, C]`."""
    if logits is not None:
        for start in range(0, len(logits), TABLE_ROWS):
            rows = slice(start, min(start + TABLE_ROWS, len(logits)))
            yield rows, logits[rows]
        return
    precision = built.config.train.precision
    yield from predict_pieces(built.model, built.data.get("x"), built.plan, precision=precision)


def _subgraphs(built: Built) -> np.ndarray | None:
    """The subgraph of each of this process's nodes; None under a schedule that needs no partition; collective."""
    plan = built.plan
    if built.partition is not None:
        return built.partition.labels.numpy()
    if isinstance(plan, ShardedPlan) and needs_partition(built.config.schedule.name):
        return number_parts(plan.shard, None, plan.group).parts[: plan.num_nodes].numpy()
    return None


def _row_digests(built: Built) -> RowDigests | None:
    """The digests of the whole graph where its nodes have no names."""
    data = built.data
    if data.get("node_name") is not None:
        return None
    if not isinstance(built.plan, ShardedPlan):
        return RowDigests.of(data)
    stored = data.get("row_digests")
    return None if stored is None else RowDigests.parse(stored, "shards.json")


def _whole_weights(built: Built) -> dict[str, Tensor]:
    """In rank 0 the weights of all processes; embeddings in the order of the user's nodes; collective."""
    weights, plan = dict(built.model.state_dict()), built.plan
    if not isinstance(plan, ShardedPlan):
        return weights
    for name in own_names(built.model):
        places, rows = plan.group.gather(plan.shard.nodes), plan.group.gather(weights[name].cpu())
        if plan.group.rank == 0:
            whole = torch.empty(plan.shard.totals.num_nodes, *rows[0].shape[1:], dtype=rows[0].dtype)
            whole[torch.cat(places)] = torch.cat(rows)
            weights[name] = whole
    return weights


def _recall(built: Built, result: FitResult) -> dict[str, float]:
    """The recall of gold pairs, of data that has any; collective."""
    if built.data.get("gold_class") is None or result.logits is None or result.task is None:
        return {}
    scores = result.task.predict(result.logits).cpu()
    if isinstance(built.plan, ShardedPlan):
        return {"test_recall": recall_of_shards(built.data, built.plan, scores)}
    return {"test_recall": recall_at_k(built.data, scores)}


def write_member(run: RunFolder, name: str, built: Built, result: FitResult) -> None:
    """Write a training of a race as a finished run of its own in the run's folder; collective.

    Args:
        run: the run whose predictions it shares in.
        name: of its recipe.
        built: its objects, whose model holds its weights.
        result: what it came to.
    """
    member, group = RunFolder(run.members / name), group_of(built.plan)
    if group.rank == 0 and not member.config.exists():
        began = {**read_json(run.environment), "settings": settings_of(built.config)}
        if not isinstance(built.plan, ShardedPlan):
            began |= digests_of(built)
        RunFolder.create(
            member.path, {"config.toml": built.config.to_toml(), "environment.json": json.dumps(finite(began))}
        )
        member.rewrite_history(result.history)
    group.barrier()
    finish_run(member, built, result)


def blend_run(run: RunFolder, built: Built, result: FitResult, blend: Blend) -> tuple[FitResult, Mapping[str, Any]]:
    """The result of a run with the predictions of its blend, and the blend as its model's file holds it; collective.

    Args:
        run: whose members are finished.
        built: the objects of its own model.
        result: what this alone came to.
        blend: the weights, its own first.
    """
    assert result.task is not None
    own = result.prediction(next(iter(blend.weights.values())))
    found = [own, *predict_members(read_members(run, blend, result.task, averaged=False), built)]
    shares = keeps_shares(result.metrics["metric"], built.config.train.class_weight)
    task, logits, scores = blend_predictions(found, built.data, group_of(built.plan), shares=shares)
    metrics = {**result.metrics, **scores, "num_members": len(found)}
    noted = blend.to_mapping() | {"task": result.task.to_mapping()}
    return replace(result, logits=logits, task=task, metrics=metrics), noted


def predict_members(members: Sequence[Member], built: Built) -> Iterator[Prediction]:
    """What the other models of a blend predict of this process's nodes; collective.

    Args:
        members: of the run.
        built: the objects of the run's own model, on the same graph.
    """
    for weight, trained, config in members:
        other = built.build_other(config) if config.data == built.config.data else build(config)
        load_weights(other, trained)
        precision = config.train.precision
        logits = predict_logits(other.model, other.data.get("x"), other.plan, precision=precision)
        yield Prediction(weight, trained.own_task, logits)


def load_weights(built: Built, trained: Trained) -> None:
    """Give a model the weights of a run, whose embeddings are in the order of the user's nodes."""
    weights = dict(trained.model.state_dict())
    if built.plan.nodes is not None:
        for name in own_names(built.model):
            weights[name] = weights[name][built.plan.nodes.cpu()]
    built.model.load_state_dict(weights)
