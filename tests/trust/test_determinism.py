"""The same command twice gives the same bits: on the CPU always, on a GPU where torch is set to deterministic."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import gpnn
from gpnn.kernels.execution import make_deterministic
from gpnn.train import Recipe, fit

ROOT = Path(__file__).parents[2]
WORDS = ["planted", "data.num_nodes=3000", "data.num_features=24", "model.hidden_channels=16", "train.epochs=4"]


def train(folder: Path, name: str, *words: str, threads: int = 2) -> bytes:
    """The model file of a training in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)}
    environment["NUMBA_NUM_THREADS"] = str(threads)
    command = [sys.executable, "-m", "gpnn", "train", *WORDS, *words, "--quiet", "--no-report", "--out", name]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return (folder / name / "model.safetensors").read_bytes()


@pytest.mark.slow  # tests/cli/test_train.py has the short form
def test_two_processes_of_two_threads_give_the_same_bits(tmp_path: Path) -> None:
    words = ("model.cell=gru", "train.passes=2")
    assert train(tmp_path, "one", *words) == train(tmp_path, "two", *words)


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
