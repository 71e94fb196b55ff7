"""A run: objects trained into a run folder, from the start or from where a kill left it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gpnn.build.names import load_config
from gpnn.build.objects import Built, build, rebuild
from gpnn.build.search import Search
from gpnn.config import Config
from gpnn.data import recall_at_k
from gpnn.engine import Plan
from gpnn.nn import GPNN
from gpnn.storage.read import shorten
from gpnn.train.atomic import finite
from gpnn.train.environment import describe_environment
from gpnn.train.evaluate import predict_logits, probabilities
from gpnn.train.fit import FitResult, Watcher, fit
from gpnn.train.predictions import predictions_table, write_predictions
from gpnn.train.restore import restore_model
from gpnn.train.run_folder import HistoryFile, RunFolder

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


def create_run(built: Built, path: Path, search: Search | None = None) -> RunFolder:
    """The run folder of objects that were built, with its configuration, environment and, if any, its search.

    Raises:
        ValueError: when there is something at `path` already.
    """
    environment = finite(describe_environment(built.plan.device))
    files = {"config.toml": built.config.to_toml(), "environment.json": json.dumps(environment, indent=2) + "\n"}
    if search is not None:
        files["search.json"] = search.to_json()
    return RunFolder.create(path, files)


def open_run(path: Path) -> tuple[RunFolder, Built]:
    """The run at `path` and its objects, built anew from its configuration.

    Raises:
        ValueError: when there is none.
    """
    run = RunFolder.open(path)
    return run, build(load_config(run.config))


def train_run(run: RunFolder, built: Built, watchers: Sequence[Watcher] = ()) -> FitResult:
    """Train, from the run's checkpoint where there is one; at the end the run folder is complete.

    An interrupted training leaves a checkpoint to continue from, and no metrics.
    """
    config = built.config
    result = fit(
        built.model,
        built.data,
        built.plan,
        recipe=config.train,
        seed=config.seed,
        checkpoint=run.checkpoint,
        watchers=[HistoryFile(run), *watchers],
    )
    if result.stopped != "interrupted":
        _finish(run, built, result)
    return result


def predict_run(run: RunFolder, config: Config, data: Data) -> pyarrow.Table:
    """What a finished run's model says of a graph, its own or another, as a table with a row a node.

    Args:
        run: a finished run.
        config: the run's configuration.
        data: the graph; with features as the run had them, where its model takes any.

    Raises:
        ValueError: when the run is not finished or the graph does not suit its model.
    """
    weights, described = run.read_model()
    restored = restore_model(described.get("model"), weights, run.model.name)
    model, plan = rebuild(config, restored, described["model"], data)
    likely = _predict(model, data, plan, config.train.precision, multi_label=bool(described.get("multi_label")))
    names = described.get("classes")
    if names is not None and not (isinstance(names, list) and len(names) == likely.shape[1]):
        raise ValueError(f"{run.model.name} must name its {likely.shape[1]} classes. Got {shorten(names)}.")
    return predictions_table(likely, nodes=data.get("node_name"), classes=names)


def _finish(run: RunFolder, built: Built, result: FitResult) -> None:
    """Write weights, predictions and, last of all, metrics: where they stand the run is finished."""
    data, multi_label, names = built.data, built.data.y.dim() == 2, built.data.get("class_names")
    precision = built.config.train.precision
    likely = _predict(built.model, data, built.plan, precision, multi_label=multi_label)
    description = {"model": built.model_arguments, "classes": names, "multi_label": multi_label}
    run.write_model(built.model.state_dict(), description)
    nodes, labelled = data.get("node_name"), data.get("train_mask")
    write_predictions(predictions_table(likely, nodes=nodes, classes=names, labelled=labelled), run.predictions)
    figures = result.metrics | _figures(built)
    if data.get("gold_class") is not None:
        figures["test_recall"] = recall_at_k(data, likely)
    run.write_metrics(figures)


def _predict(model: GPNN, data: Data, plan: Plan, precision: str, *, multi_label: bool) -> Tensor:
    x = None if data.get("x") is None else data.x.to(plan.device)
    return probabilities(predict_logits(model, x, plan, precision=precision), multi_label=multi_label).cpu()


def _figures(built: Built) -> dict[str, Any]:
    """What a run cost and how large it was; messages and updates are an epoch's, over all its passes."""
    passes = built.config.train.passes
    return {
        "num_messages": built.plan.num_messages * passes,
        "num_updates": built.plan.num_updates * passes,
        "multi_label": built.data.y.dim() == 2,
        "num_nodes": built.data.num_nodes,
        "num_edges": built.data.num_edges,
        "num_parts": 1 if built.partition is None else built.partition.num_parts,
        "num_rounds": built.plan.num_rounds,
        "num_parameters": sum(parameter.numel() for parameter in built.model.parameters()),
        "seed": built.config.seed,
    }
