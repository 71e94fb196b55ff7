"""Readers of what gpnn itself writes: partitions, shards, configurations, runs, results, classifiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

import gpnn
from tests.trust.reader import Reader

TINY = ["data.name=planted", "data.num_nodes=60", "data.num_classes=3", "data.num_features=8", "data.label_rate=0.4"]
SMALL = ["model.hidden_channels=4", "train.epochs=2", "partition.k=3", "train.checkpoint_every=1", "schedule.rounds=2"]


def _write_partitions(folder: Path) -> None:
    part = gpnn.Partition(torch.arange(40) % 5, 5)
    part.save(folder / "saved.safetensors")
    part.save(folder / "saved.part.5")


def _read_partitions(folder: Path) -> list[Any]:
    return [gpnn.Partition.load(path) for path in sorted(folder.iterdir())]


def _sound_partitions(parts: list[Any]) -> None:
    for part in parts:
        assert int(part.sizes.sum()) == part.num_nodes == len(part.order)
        assert len(part.ptr) == part.num_parts + 1


def _write_config(folder: Path) -> None:
    from gpnn.build import load_config

    overrides = [*TINY, *SMALL, "schedule.intra=2", "train.clip=1.5", "model.cell=gru", "device=cpu"]
    (folder / "config.toml").write_text(load_config(overrides=overrides).to_toml())


def _read_config(folder: Path) -> Any:
    from gpnn.build import load_config

    return load_config(folder / "config.toml")


def _sound_config(config: Any) -> None:
    """What was read writes itself as a file that reads the same."""
    import tempfile

    from gpnn.build import load_config

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.toml").write_text(config.to_toml(), encoding="utf-8")
        assert load_config(Path(folder) / "config.toml") == config


def _write_run(folder: Path) -> None:
    from gpnn.build import build, create_run, load_config, train_run

    built = build(load_config(overrides=[*TINY, *SMALL, "model.cell=gru", "device=cpu"]))
    train_run(create_run(built, folder / "run"), built)


def _read_run(folder: Path) -> Any:
    """All that `gpnn predict` and the report read of a run."""
    from gpnn.build import build_data, load_config, predict_run
    from gpnn.train import RunFolder

    run = RunFolder.open(folder / "run")
    history, metrics = run.read_history(), run.read_metrics()
    config = load_config(overrides=[*TINY, *SMALL, "model.cell=gru", "device=cpu"])
    return history, metrics, predict_run(run, config, build_data(config))


def _sound_run(answer: Any) -> None:
    history, metrics, table = answer
    assert all(isinstance(record, dict) for record in history)
    assert isinstance(metrics, dict)
    assert table.num_rows == 60


def _read_checkpoint(folder: Path) -> Any:
    from gpnn.build import build, load_config
    from gpnn.train.checkpoint import load_checkpoint
    from gpnn.train.optimizer import make_optimizer

    built = build(load_config(overrides=[*TINY, *SMALL, "model.cell=gru", "device=cpu"]))
    progress = load_checkpoint(
        folder / "run" / "checkpoint" / "training.safetensors", built.model, make_optimizer(built.model)
    )
    return progress, built.model


def _sound_checkpoint(answer: Any) -> None:
    progress, model = answer
    assert isinstance(progress.epoch, int)
    assert progress.epoch >= 0
    assert set(progress.best_weights) in (set(), set(model.state_dict()))


def _write_shards(folder: Path) -> None:
    from gpnn.data.sparse import csr_tensor
    from gpnn.engine.sharded import Line, write_shards
    from tests.oracle.engine_cases import multigraph

    graph, ptr = multigraph(), np.arange(11)
    columns = {"x": csr_tensor(ptr, ptr[:10] % 3, np.ones(10, np.float32), (10, 3)), "y": torch.arange(10) % 3}
    part = gpnn.Partition([0, 3, 1, 0, 3, 1, 0, 1, 3, 3], 4)
    write_shards(folder / "shards", graph, Line.of(graph, part, 2), columns, {"num_classes": 3})


def _read_shards(folder: Path) -> list[Any]:
    from gpnn.engine.sharded import read_index, read_shard

    index = read_index(folder / "shards")
    return [read_shard(index, rank, size) for size in (1, 2) for rank in range(size)]


def _sound_shards(shards: list[Any]) -> None:
    for shard, columns in shards:
        assert shard.num_own == len(shard.nodes) == len(columns["y"]) == columns["x"].shape[0]
        assert shard.graph.num_nodes == shard.num_own + len(shard.halo)


def _write_experiment(folder: Path) -> None:
    rows = '[[rows]]\nname = "a"\n[[rows]]\nname = "b"\nsettings = { train = { epochs = 2 } }\n'
    columns = '[[columns]]\nname = "One"\nsettings = { data = { name = "digits" } }\n'
    grid = '[grid]\n"train.epochs" = [1, 2]\n'
    head = 'title = "Two"\nseeds = 2\nsamples = 2\npairs = [["a", "b"]]\nnotes = ["one"]\n'
    (folder / "some.toml").write_text(f"{head}{rows}{columns}{grid}")


def _read_experiment(folder: Path) -> Any:
    import itertools

    from gpnn.experiment import read_experiment

    experiment = read_experiment(folder / "some.toml")
    return list(itertools.islice(experiment.cells(), 100))


def _sound_experiment(cells: Any) -> None:
    assert len({cell.key for cell in cells}) >= 1 or not cells


def _write_results(folder: Path) -> None:
    from gpnn.experiment import Cell, Results

    results = Results.open(folder / "cells.jsonl")
    for seed in range(3):
        results.add(Cell("a", "One", seed, {"train": {"epochs": 1}}), {"test_accuracy": 0.5, "seconds": 1.25})


def _read_results(folder: Path) -> Any:
    from gpnn.experiment import Results

    return Results.open(folder / "cells.jsonl")


def _sound_results(results: Any) -> None:
    for key, outcome in results.outcomes.items():
        assert isinstance(key, str)
        assert isinstance(outcome.metrics, dict)


def _write_classifier(folder: Path) -> None:
    data = gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.4)
    gpnn.GPNNClassifier(k=3, rounds=2, hidden_channels=4, epochs=2, device="cpu").fit(data).save(folder)


def _read_classifier(folder: Path) -> Any:
    data = gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.4)
    return gpnn.GPNNClassifier.load(folder).predict_proba(data)


def _sound_probabilities(likely: Any) -> None:
    assert likely.ndim == 2
    assert len(likely) == 60


RUN_READERS: dict[str, Reader] = {
    "partition": Reader(_write_partitions, _read_partitions, _sound_partitions),
    "config": Reader(_write_config, _read_config, _sound_config),
    "run folder": Reader(_write_run, _read_run, _sound_run, "run/*.[jm]*"),  # metrics, history, model, environment
    "checkpoint": Reader(_write_run, _read_checkpoint, _sound_checkpoint, "run/checkpoint/*"),
    "shards": Reader(_write_shards, _read_shards, _sound_shards),
    "experiment": Reader(_write_experiment, _read_experiment, _sound_experiment),
    "results": Reader(_write_results, _read_results, _sound_results),
    "classifier": Reader(_write_classifier, _read_classifier, _sound_probabilities),
}
