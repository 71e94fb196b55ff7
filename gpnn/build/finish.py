"""The end of a training: predictions, weights and metrics of all processes, written by rank 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.build.objects import Built, describe_sizes
from gpnn.build.predict import describe_model
from gpnn.data import recall_at_k
from gpnn.distributed import ShardedPlan, group_of, number_parts
from gpnn.distributed.plan import own_names
from gpnn.distributed.quality import recall_of_shards
from gpnn.graph import as_graph
from gpnn.memory.available import available_bytes
from gpnn.run.folder import RunFolder
from gpnn.run.known_nodes import RowDigests
from gpnn.run.predictions import (
    data_rows,
    known_labels,
    merge_predictions,
    predictions_table,
    split_names,
    true_labels,
    write_both,
    write_predictions,
)
from gpnn.schedule.make_schedule import needs_partition
from gpnn.train.baselines import plain_baselines
from gpnn.train.evaluate import features_device, predict_pieces
from gpnn.train.fit import FitResult
from gpnn.train.task import Task

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
    result, group = built.fit(checkpoint, [_Stop()]), group_of(built.plan)
    if not result.metrics:
        return
    if group.rank == 0:
        adopt()
        run.rewrite_history(result.history)
    group.barrier()
    stopped: dict[str, Any] = {"stopped": "interrupted"}
    finish_run(run, built, replace(result, metrics=result.metrics | stopped, **stopped))


class _Stop:
    """The callback that ends a training where it is."""

    def start(self, history: list[dict[str, Any]]) -> bool:
        return True

    def epoch(self, record: dict[str, Any]) -> bool:
        return True


def write_baselines(run: RunFolder, built: Built) -> None:
    """Write what plain methods reach on the same data, where one process holds it and memory allows."""
    data, config = built.data, built.config
    free = available_bytes() if config.memory == "auto" else min(config.memory * 1e9, available_bytes())
    if isinstance(built.plan, ShardedPlan) or _column_bytes(data) > free / 2:
        return
    run.write_baselines(plain_baselines(data, config.train, seed=config.seed))


def _column_bytes(data: Data) -> float:
    """Bytes of the features with their means over neighbours, and of what a solver holds besides, roughly."""
    x = data.get("x")
    entries = 0 if x is None else x.numel() if x.layout == torch.strided else x.values().numel()
    return 100.0 * entries + 40.0 * as_graph(data).num_edges


def _tables(built: Built, task: Task, logits: Tensor | None) -> Iterator[pyarrow.Table]:
    """The predictions of this process's nodes, some at a time; a shard's with the number of each node as `row`.

    Without the logits of all nodes there is no column for the probability of each class.
    """
    plan, classes, subgraph = built.plan, built.data.get("class_names"), _subgraphs(built)
    number = np.arange(plan.num_nodes) if plan.nodes is None else plan.nodes.cpu().numpy()
    for rows, some in _pieces(built, logits):
        columns = task.columns(task.predict(some).cpu(), classes)
        data = data_rows(built.data, rows)
        also = {"split": split_names(data)}
        if isinstance(plan, ShardedPlan):
            also["row"] = number[rows]
        if subgraph is not None:
            also["subgraph"] = subgraph[rows]
        yield predictions_table(
            columns if logits is not None else (columns[0], {}),
            nodes=data.get("node_name", number[rows]),
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
    x, plan, model = built.data.get("x"), built.plan, built.model
    x = None if x is None else x.to(features_device(x, model, plan))
    yield from predict_pieces(model, x, plan, precision=built.config.train.precision)


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
