"""Datasets of the Open Graph Benchmark: through its package where it is installed, and one sentence where it is not."""

import gzip
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from gpnn.check import install_command
from gpnn.data import load_dataset, verify_files
from gpnn.data.ogb import _labels, read_ogb, read_split
from tests.oracle.torch_files import write_attack


def write_arxiv(root: Path) -> Path:
    """Four nodes in the raw files of ogbn-arxiv."""
    folder = root / "ogbn_arxiv"
    tables = {
        "raw/edge": "0,1\n1,2\n3,0\n",
        "raw/num-node-list": "4\n",
        "raw/num-edge-list": "3\n",
        "raw/node-feat": "0.5,1.0\n0.0,0.0\n1.5,2.5\n3.0,4.0\n",
        "raw/node-label": "7\n39\n0\n7\n",
        "raw/node_year": "2010\n2011\n2012\n2013\n",
        "split/time/train": "0\n1\n",
        "split/time/valid": "2\n",
        "split/time/test": "3\n",
    }
    for name, text in tables.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))
    (folder / "RELEASE_v1.txt").touch()
    return root


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_real_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ogb")
    root = write_arxiv(tmp_path)
    for _ in range(2):  # nothing is kept that the second time would read
        data = load_dataset("ogbn-arxiv", root=root)
        assert data.edge_index.tolist() == [[0, 1, 3], [1, 2, 0]]
        assert data.x.tolist() == [[0.5, 1.0], [0, 0], [1.5, 2.5], [3, 4]]
        assert data.y.tolist() == [7, 39, 0, 7]
        assert data.train_mask.tolist() == [True, True, False, False]
        assert data.test_mask.tolist() == [False, False, False, True]
    assert capsys.readouterr().out == ""  # the package prints, but not among results


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_unknown_labels_several_tasks_and_damage(tmp_path: Path) -> None:
    pytest.importorskip("ogb")
    labels = tmp_path / "ogbn_arxiv" / "raw" / "node-label.csv.gz"
    write_arxiv(tmp_path)
    labels.write_bytes(gzip.compress(b"nan\n39\n0\n7\n"))
    with pytest.raises(ValueError, match=r"`train_mask` must pick labelled nodes\. Got node 0, whose label is -1\."):
        load_dataset("ogbn-arxiv", root=tmp_path)
    labels.write_bytes(labels.read_bytes()[:20])
    with pytest.raises(ValueError, match=r"ogbn_arxiv must hold the undamaged files of ogbn-arxiv\. Got: "):
        load_dataset("ogbn-arxiv", root=tmp_path)
    tasks = np.array([[1, 0], [0, 1]])
    assert _labels(tasks, "binary classification").tolist() == tasks.tolist()


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
    with pytest.raises(ImportError, match=re.escape(f"package: {install_command('ogb')}.")):
        read_ogb("ogbn-arxiv", write_arxiv(tmp_path))


def test_without_the_files_nothing_is_downloaded_or_asked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ogbn-arxiv must be unpacked in .*ogbn_arxiv .* Got no edge\.csv\.gz\."):
        load_dataset("ogbn-arxiv", root=tmp_path)
    assert verify_files("ogbn-arxiv", tmp_path) == {"ogbn_arxiv/raw/edge.csv.gz": "missing"}
    (write_arxiv(tmp_path) / "ogbn_arxiv" / "RELEASE_v1.txt").unlink()
    with pytest.raises(ValueError, match=r"must hold the RELEASE_v\*\.txt of its archive\. Got none\."):
        load_dataset("ogbn-arxiv", root=tmp_path)


def test_a_split_that_is_kept_as_a_file_of_torch(tmp_path: Path) -> None:
    path = tmp_path / "split_dict.pt"
    torch.save({"train": np.array([0, 2]), "valid": torch.tensor([1]), "test": np.empty(0, np.int64)}, path)
    parts = read_split(path)
    assert {name: part.tolist() for name, part in parts.items()} == {"train": [0, 2], "valid": [1], "test": []}
    torch.save([1], path)
    with pytest.raises(ValueError, match=r"split_dict\.pt must hold a dictionary"):
        read_split(path)


def test_a_hostile_split_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package would load it with torch, which calls what PyG declares safe."""
    install_package(monkeypatch)
    marker, folder = tmp_path / "ran", write_arxiv(tmp_path) / "ogbn_arxiv" / "split" / "time"
    write_attack(folder, marker).rename(folder / "split_dict.pt")
    refused = r"ogbn_arxiv must hold the undamaged files of ogbn-arxiv\. Got: the name .*ClusterData is not admitted\."
    with pytest.raises(ValueError, match=refused):
        load_dataset("ogbn-arxiv", root=tmp_path)
    assert not marker.exists()


def install_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the reader uses of the package, as the package has it, where it is not installed."""
    if find_spec("ogb") is not None:
        return

    class NodePropPredDataset:
        binary, task_type = False, "multiclass classification"

        def __init__(self, name: str, root: str) -> None:
            self.root, self.meta_info = f"{root}/ogbn_arxiv", {"add_inverse_edge": "False", "split": "time"}
            self.pre_process()

        def __getitem__(self, index: int) -> tuple[Any, Any]:
            return self.graph, self.labels

        def get_idx_split(self, split_type: str | None = None) -> Any:
            return torch.load(f"{self.root}/split/time/split_dict.pt")

    graph = {"edge_index": np.array([[0, 1], [1, 2]]), "num_nodes": 4}
    readers = {"read_csv_graph_raw": lambda *_, **__: [graph], "read_binary_graph_raw": None}
    monkeypatch.setitem(sys.modules, "ogb", ModuleType("ogb"))
    for name, symbols in {
        "ogb.io": {},
        "ogb.io.read_graph_raw": readers,
        "ogb.nodeproppred": {"NodePropPredDataset": NodePropPredDataset},
    }.items():
        module = ModuleType(name)
        module.__dict__.update(symbols)
        monkeypatch.setitem(sys.modules, name, module)
