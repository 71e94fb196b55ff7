"""A saved graph that would run a command, at every door where a graph comes in: one sentence, and nothing is run."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from gpnn import load_dataset
from tests.oracle.torch_files import write_attack

SENTENCE = (
    "graph.pt must hold a PyG Data, saved by torch.save. "
    "Got: the name torch_geometric.loader.cluster.ClusterData is not admitted."
)
DOORS = {
    "train": ["train", "graph.pt", "--out", "other"],
    "partition": ["partition", "graph.pt", "-k", "2", "--out", "a.safetensors"],
    "schedule": ["schedule", "graph.pt"],
    "data describe": ["data", "describe", "graph.pt"],
    "predict": ["predict", "run", "graph.pt", "--out", "a.csv"],
    "predict of the run's own graph": ["predict", "run", "--out", "a.csv"],
    "report": ["report", "run", "--out", "a.html"],
    "resume": ["train", "--resume", "run"],
}


def write_honest(path: Path) -> None:
    nodes = torch.arange(12)
    edges = torch.stack([torch.cat([nodes, nodes.roll(1)]), torch.cat([nodes.roll(1), nodes])])
    torch.save(Data(x=torch.eye(12), edge_index=edges, y=nodes % 2), path)


@pytest.fixture
def received(gpnn, tmp_path: Path) -> Path:
    """A run folder whose config.toml names `graph.pt`, which is no longer what it was."""
    write_honest(tmp_path / "graph.pt")
    words = ["graph.pt", "partition.k=2", "train.epochs=2", "--no-report", "--out", "run", "-q"]
    assert gpnn("train", *words).exit_code == 0
    write_attack(tmp_path, tmp_path / "ran")
    return tmp_path


@pytest.mark.parametrize("door", DOORS)
def test_nothing_is_run(gpnn, received: Path, door: str) -> None:
    if door == "resume":
        (received / "run" / "metrics.json").unlink()  # it was not finished
    before = sorted(received.rglob("*"))
    result = gpnn(*DOORS[door])
    assert result.exit_code == 2, result.output
    assert result.stderr.splitlines() == [f"gpnn: {SENTENCE}"]
    assert sorted(received.rglob("*")) == before


def test_load_dataset(tmp_path: Path) -> None:
    path = write_attack(tmp_path, tmp_path / "ran")
    with pytest.raises(ValueError, match=r"ClusterData is not admitted"):
        load_dataset(path)
    assert not (tmp_path / "ran").exists()
