"""Saved PyG graphs: what is read, and that nothing is run on a file's behalf."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from gpnn.data import load_dataset
from gpnn.data.formats.pyg import read_pyg


def small(**also: Any) -> Data:
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    return Data(x=torch.eye(3), edge_index=edges, y=torch.tensor([0, 1, -1]), **also)


def save(content: Any, folder: Path) -> Path:
    torch.save(content, folder / "graph.pt")
    return folder / "graph.pt"


def test_a_graph_comes_back(tmp_path: Path) -> None:
    data = read_pyg(save(small(edge_weight=torch.tensor([1.0, 2.0, 3.0])), tmp_path))
    assert data.edge_index.tolist() == [[0, 1, 2], [1, 2, 0]]
    assert data.edge_weight.tolist() == [1, 2, 3]
    assert data.num_nodes == 3


def test_the_form_of_a_dataset_of_one_graph(tmp_path: Path) -> None:
    assert read_pyg(save((small().to_dict(), None, Data), tmp_path)).num_nodes == 3
    with pytest.raises(ValueError, match=r"graph\.pt must hold one graph\. Got a dataset of 2\."):
        read_pyg(save((small().to_dict(), {"x": torch.tensor([0, 1, 3])}, Data), tmp_path))


def test_a_split_is_drawn_and_stated(tmp_path: Path) -> None:
    data = load_dataset(save(small(), tmp_path))
    assert data.train_mask.tolist() == [True, True, False]
    assert data.remarks == ["split drawn with seed 0, 60/20/20 % of each class: 2 nodes train, 0 validate, 0 test"]


def test_masks_are_kept_and_nodes_counted_without_features(tmp_path: Path) -> None:
    masks = {"train_mask": torch.tensor([True, False, False]), "val_mask": torch.tensor([False, True, False])}
    assert load_dataset(save(small(**masks), tmp_path)).get("remarks") is None
    assert read_pyg(save(Data(edge_index=torch.tensor([[0], [4]])), tmp_path)).num_nodes == 5


def test_undirected(tmp_path: Path) -> None:
    assert load_dataset(save(small(), tmp_path), undirected=True).num_edges == 6


class Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("hacked",)


@pytest.mark.parametrize("content", [Payload(), small(extra=Payload())])
def test_nothing_is_run(tmp_path: Path, content: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = save(content, tmp_path)
    with pytest.raises(ValueError, match=r"graph\.pt must hold a PyG Data that is safe to load\. Got: "):
        read_pyg(path)
    assert not (tmp_path / "hacked").exists()


def test_old_pickles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.pt").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(ValueError, match=r"graph\.pt must be a file that torch\.save wrote\. Got: File is not a zip"):
        read_pyg(tmp_path / "graph.pt")
    torch.save(small(), tmp_path / "graph.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=r"graph\.pt must be a file that torch\.save wrote"):
        read_pyg(tmp_path / "graph.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.eye(3), r"must hold a PyG Data with an edge_index\. Got Tensor\."),
        ({"x": torch.eye(3)}, r"must hold a PyG Data with an edge_index\. Got no edge_index\."),
        (HeteroData(), r"save `data\.to_homogeneous\(\)`\. Got HeteroData\."),
        (small(num_nodes=-1), r"num_nodes: must be an integer of at least 1\. Got -1\."),
        (small(num_nodes=2**60), r"must unpack to at most"),
        (Data(x=torch.zeros(1).expand(2**40, 1), edge_index=torch.tensor([[0], [0]])), r"must unpack to at most"),
        (Data(x=[1], edge_index=torch.tensor([[0], [0]])), r"graph\.pt, x: must be a tensor\. Got list\."),
    ],
)
def test_mistakes(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_pyg(save(content, tmp_path))


def test_a_graph_whose_parts_are_gone(tmp_path: Path) -> None:
    """PyG's objects answer with a RuntimeError then, which guided fuzzing found."""
    data = small()
    del data.__dict__["_store"]
    with pytest.raises(ValueError, match=r"graph\.pt must hold a PyG Data\. Got a damaged one: "):
        read_pyg(save(data, tmp_path))
