"""SIGKILL while partitions, shards and experiments are made: what stands there is whole, the same again finishes it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.harness import Results
from gpnn import Partition
from gpnn.distributed import is_shard_folder, read_index, read_shard
from tests.trust.nursery import after, count_acts, kill_when, run, start

GRAPH = ["planted", "data.num_nodes=120", "data.num_classes=3", "data.num_features=20", "data.label_rate=0.2"]
PARTITION = ["partition", *GRAPH, "-k", "4", "--out", "labels.safetensors"]
SHARDS = ["partition", *GRAPH, "-k", "4", "--shards", "2", "--out", "shards"]
EXPERIMENT = """
title = "Tiny"
seeds = 2
[settings]
device = "cpu"
data = { name = "planted", num_nodes = 60, num_classes = 3, num_features = 12, label_rate = 0.2 }
partition = { k = 3 }
schedule = { rounds = 2 }
model = { hidden_channels = 4 }
train = { epochs = 3 }
[[rows]]
name = "gru"
settings = { model = { cell = "gru" } }
[[rows]]
name = "linear"
settings = { model = { cell = "linear" } }
[[columns]]
name = "Planted"
"""
RUN_EXPERIMENT = ["experiment", "tiny.toml", "--out", "out"]


def work(tmp_path: Path, name: object) -> Path:
    """A folder to work in, with an experiment to run."""
    folder = tmp_path / str(name) / "work"
    folder.mkdir(parents=True)
    (folder / "tiny.toml").write_text(EXPERIMENT)
    return folder


def check_partition(folder: Path) -> None:
    path = folder / "labels.safetensors"
    if path.exists():
        assert Partition.load(path).num_nodes in (3, 120)


def check_shards(folder: Path) -> None:
    if is_shard_folder(folder / "shards"):
        index = read_index(folder / "shards")
        assert sum(read_shard(index, rank, 2)[0].num_own for rank in range(2)) == 120


def check_experiment(folder: Path) -> None:
    found = finished_cells(folder)
    assert len(found) <= 4
    assert all(metrics["test_accuracy"] >= 0 for metrics in found.values())


def finished_cells(folder: Path) -> dict[str, dict[str, Any]]:
    """The metrics of the finished cells, times aside; read at any instant."""
    file = folder / "out" / "cells" / "tiny.jsonl"
    return {
        key: {name: value for name, value in outcome.metrics.items() if "seconds" not in name}
        for key, outcome in Results.open(file).outcomes.items()
    }


def contents(folder: Path) -> dict[str, Any]:
    """All that a command made, times aside."""
    made = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    kept = {str(name): path.read_bytes() for name, path in made.items() if name.parts[0] != "out"}
    return kept | {"cells": finished_cells(folder), "names": sorted(map(str, made))}


CASES: dict[str, tuple[list[str], Callable[[Path], None]]] = {
    "partition": (PARTITION, check_partition),
    "shards": (SHARDS, check_shards),
    "experiment": (RUN_EXPERIMENT, check_experiment),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["partition", "shards"])
def test_whole_or_not_at_all(tmp_path: Path, name: str) -> None:
    """Killed in some acts on a file, drawn; a partition over an old file and over none."""
    die_in_acts(tmp_path, name, 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["partition", "shards"])
def test_whole_or_not_at_all_in_every_act(tmp_path: Path, name: str) -> None:
    die_in_acts(tmp_path, name, 1000)


def die_in_acts(tmp_path: Path, name: str, most: int) -> None:
    words, check = CASES[name]
    whole = work(tmp_path, "whole")
    acts = count_acts(words, whole)
    assert acts >= 5
    for act in sorted(random.Random(2).sample(range(1, acts + 1), min(acts, most))):
        folder = work(tmp_path, act)
        if name == "partition" and act % 2 == 0:
            Partition([0, 1, 1], 2).save(folder / "labels.safetensors")
        process = start(words, folder, die_at=act)
        process.join()
        assert process.exitcode == -9
        check(folder)
        if not is_shard_folder(folder / "shards"):
            run(words, folder)
        assert contents(folder) == contents(whole)


@pytest.mark.thorough
def test_an_experiment_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    """Finished cells stay; the others are run, and the table is that of an undisturbed run."""
    whole, killed = work(tmp_path, "whole"), work(tmp_path, "killed")
    run(RUN_EXPERIMENT, whole)
    for lines in (1, 3):
        process = start(RUN_EXPERIMENT, killed)
        kill_when(process, lambda lines=lines: len(finished_cells(killed)) >= lines, lambda: None)  # type: ignore[misc]
        assert lines <= len(finished_cells(killed))
    run(RUN_EXPERIMENT, killed)
    assert len(finished_cells(killed)) == 4
    assert contents(killed) == contents(whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_killed_at_twenty_random_instants(tmp_path: Path, name: str) -> None:
    """Instants from the start of the process to past its end; what stands there is read all the while."""
    words, check = CASES[name]
    whole = work(tmp_path, "whole")
    run(words, whole)
    timed = work(tmp_path, "timed")
    began = time.monotonic()
    run(words, timed)
    seconds, random_, kills = time.monotonic() - began, random.Random(0), 0
    for number in range(20):
        folder = work(tmp_path, number)
        moment = after(random_.uniform(0, 1.1 * seconds))
        kills += kill_when(start(words, folder), moment, lambda folder=folder: check(folder))  # type: ignore[misc]
        if not is_shard_folder(folder / "shards"):
            run(words, folder)
        assert contents(folder) == contents(whole)
    assert kills >= 10
