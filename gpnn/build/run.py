"""A run: objects trained into a run folder, from the start or from where a kill left it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gpnn.build.objects import Built, build, describe_sizes
from gpnn.build.predict import describe_model
from gpnn.build.report import write_run_report
from gpnn.build.search import Search
from gpnn.build.unchanged import check_unchanged, load_run_config, settings_of
from gpnn.data import recall_at_k
from gpnn.data.check import digest_data, digest_labels
from gpnn.run.environment import describe_environment
from gpnn.run.folder import HistoryFile, RunFolder
from gpnn.run.known_nodes import RowDigests
from gpnn.run.predictions import known_labels, predictions_table, split_names, write_both
from gpnn.storage.atomic import finite
from gpnn.train.evaluate import probabilities
from gpnn.train.fit import FitResult, Watcher, fit


def create_run(built: Built, path: Path, search: Search | None = None) -> RunFolder:
    """The run folder of objects that were built, with its configuration, environment and, if any, its search.

    Raises:
        ValueError: when there is something at `path` already.
    """
    began = {**_digests(built), "settings": settings_of(built.config)}
    environment = finite(describe_environment(built.plan.device) | began)
    files = {"config.toml": built.config.to_toml(), "environment.json": json.dumps(environment, indent=2) + "\n"}
    if search is not None:
        files["search.json"] = search.to_json()
    return RunFolder.create(path, files)


def open_run(path: Path) -> tuple[RunFolder, Built]:
    """The run at `path` and its objects, built anew from its configuration.

    Raises:
        ValueError: when there is none, it failed, or its data, its file of subgraphs or a setting is not what it began
            with.
    """
    run = RunFolder.open(path)
    run.check_succeeded()
    built = build(load_run_config(run))
    check_unchanged(run, _digests(built), built.config)
    return run, built


def train_run(run: RunFolder, built: Built, watchers: Sequence[Watcher] = (), *, report: bool = True) -> FitResult:
    """Train, from the run's checkpoint where there is one; at the end the run folder is complete.

    An interrupted training leaves a checkpoint to continue from, and no metrics; one that diverged leaves the reason,
    and no predictions. The report is written last, unless `report` is False or its libraries are not installed.
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
    if result.problem is not None:
        run.write_failure(result.problem)
    elif result.stopped != "interrupted":
        _finish(run, built, result)
        if report:
            write_run_report(run, built, result.logits)
    return result


def _finish(run: RunFolder, built: Built, result: FitResult) -> None:
    """Write predictions, weights and, last of all, metrics: where they stand the run is finished."""
    data, multi_label, names = built.data, built.data.y.dim() == 2, built.data.get("class_names")
    assert result.logits is not None
    probability = probabilities(result.logits, multi_label=multi_label).cpu()
    digests = RowDigests.of(data) if data.get("node_name") is None else None
    also = {"split": split_names(data)}
    if built.partition is not None:
        also["subgraph"] = built.partition.labels.numpy()
    rows = {"nodes": data.get("node_name"), "classes": names, "labelled": known_labels(data)}
    write_both(predictions_table(probability, **rows, also=also), run.predictions)
    run.write_model(built.model.state_dict(), describe_model(built, digests, run.predictions))
    metrics = result.metrics | describe_sizes(built)
    if data.get("gold_class") is not None:
        metrics["test_recall"] = recall_at_k(data, probability)
    run.write_metrics(metrics)


def _digests(built: Built) -> dict[str, str]:
    """Digests of what lies outside the run folder: the data and, where one was given, the file of subgraphs."""
    found = {"data_sha256": digest_data(built.data)}
    if built.partition is not None and built.config.partition.file:
        found["partition_sha256"] = digest_labels(built.partition.labels)
    return found
