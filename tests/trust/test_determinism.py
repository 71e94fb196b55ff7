"""The same command twice gives the same bits: on the CPU always, on a GPU where torch is set to deterministic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import csv, parquet

import gpnn
from gpnn.kernels.execution import make_deterministic
from gpnn.train import Recipe, fit
from tests.trust import kills
from tests.trust.consistent import check_same

ROOT = Path(__file__).parents[2]
WORDS = ["planted", "data.num_nodes=3000", "data.num_features=24", "model.hidden_channels=16", "train.epochs=4"]


def call(folder: Path, *words: str, threads: int) -> str:
    """What `gpnn WORDS` prints in a process of its own with so many threads."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)}
    environment["NUMBA_NUM_THREADS"] = str(threads)
    command = [sys.executable, "-m", "gpnn", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(folder: Path, name: str, *words: str, threads: int = 2) -> bytes:
    """The model file of a training."""
    call(folder, "train", *WORDS, *words, "--quiet", "--no-report", "--out", name, threads=threads)
    return (folder / name / "model.safetensors").read_bytes()


@pytest.mark.slow  # tests/cli/test_train.py has the short form
def test_two_processes_of_two_threads_give_the_same_bits(tmp_path: Path) -> None:
    words = ("model.cell=gru", "train.passes=2")
    assert train(tmp_path, "one", *words) == train(tmp_path, "two", *words)


KINDS = {  # settings, and how far probabilities may be apart after four epochs on another number of threads
    "held cut": (["schedule.name=held_cut", "model.cell=gru", "partition.k=6", "schedule.intra=3"], 1e-4),
    "learned": (["partition.method=learned", "partition.k=6"], 5e-3),  # a tenth of the nodes is in another subgraph
    "race": (["recipe=auto"], 1e-4),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_training_on_other_threads(tmp_path: Path, kind: str) -> None:
    """The same bits on as many threads; on one instead of two, probabilities within a bound."""
    settings, bound = KINDS[kind]
    for name, threads in {"two": 2, "again": 2, "one": 1}.items():
        train(tmp_path, name, *settings, threads=threads)
    check_same(tmp_path / "two", tmp_path / "again")
    two, one = (probabilities(parquet.read_table(tmp_path / name / "predictions.parquet")) for name in ("two", "one"))
    np.testing.assert_allclose(one, two, rtol=0, atol=bound)


@pytest.mark.slow
def test_conversions_updates_and_explanations_on_other_threads(tmp_path: Path) -> None:
    """A conversion has the same bits; an update's probabilities and an explanation's numbers are within 1e-5."""
    call(trained := kills.work(tmp_path, "trained"), *kills.TRAINED, threads=2)
    folders = {threads: kills.work(tmp_path, threads, trained) for threads in (1, 2)}
    explained = []
    for threads, folder in folders.items():
        call(folder, *kills.WORDS["convert"], threads=threads)
        call(folder, *kills.WORDS["update"], threads=threads)
        explained.append(numbers(json.loads(call(folder, *kills.WORDS["explain"], threads=threads))))
    assert kills.contents(folders[1] / "graph") == kills.contents(folders[2] / "graph")
    one, two = (probabilities(csv.read_csv(folder / "predictions.csv")) for folder in folders.values())
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-5)
    np.testing.assert_allclose(*explained, rtol=0, atol=1e-5)


def probabilities(table: pyarrow.Table) -> np.ndarray:
    return np.stack([np.asarray(table[name]) for name in table.column_names if name.startswith("p_")])


def numbers(value: Any) -> list[float]:
    """The numbers in what JSON holds, in order."""
    if isinstance(value, dict | list):
        return [number for each in (value.values() if isinstance(value, dict) else value) for number in numbers(each)]
    return [float(value)] if isinstance(value, int | float) else []


def planted_run(device: str, runner: str, seed: int = 0) -> Callable[[], list[torch.Tensor]]:
    """A training that is ready to begin, and gives its weights."""
    data = gpnn.load_dataset("planted", num_nodes=500, num_classes=4, num_features=16, label_rate=0.2)
    plan = gpnn.lower(data, gpnn.schedule.partitioned(data, gpnn.partition_graph(data, 5), rounds=3), device=device)
    model = gpnn.nn.GPNN(16, 16, 4, cell="gru", message="linear", dropout=0.4, drop_node=0.3, runner=runner, seed=seed)
    model = model.to(device)

    def train() -> list[torch.Tensor]:
        fit(model, data, plan, recipe=Recipe(epochs=5), seed=seed)
        return [parameter.detach().cpu() for parameter in model.parameters()]

    return train


@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_two_trainings_in_one_process(runner: str) -> None:
    one, two, other = (planted_run("cpu", runner, seed)() for seed in (3, 3, 4))
    assert all(map(torch.equal, one, two))
    assert not all(map(torch.equal, one, other))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_two_trainings_on_a_gpu_where_it_is_asked_for(runner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    trainings = [planted_run("cuda", runner) for _ in range(2)]
    make_deterministic()
    try:
        one, two = (train() for train in trainings)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(map(torch.equal, one, two))


def test_the_setting_reaches_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from gpnn.cli import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # given back afterwards, also where there was none
    words = ["train", "planted", "data.num_nodes=120", "train.epochs=1", "--quiet", "--no-report", "--out", "run"]
    try:
        result = CliRunner().invoke(app, [*words, "deterministic=true"])
        assert result.exit_code == 0, result.output
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
