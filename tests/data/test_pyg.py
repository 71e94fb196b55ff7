"""Saved PyG graphs: what is read, and that nothing is run on a file's behalf."""

import contextlib
import os
import pickle
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.feature_store import TensorAttr
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout
from torch_geometric.data.storage import GlobalStorage

from gpnn.data import load_dataset
from gpnn.data.pyg import CONSTRUCTORS, read_pyg
from gpnn.data.torch_archive import CONSTRUCTORS as TENSOR_CONSTRUCTORS
from tests.oracle.torch_files import Call, write_attack, write_program


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
    assert data.notes == ["split drawn with seed 0, 60/20/20 % of each class: 2 nodes train, 0 validate, 0 test"]


def test_masks_are_kept_and_nodes_counted_without_features(tmp_path: Path) -> None:
    masks = {"train_mask": torch.tensor([True, False, False]), "val_mask": torch.tensor([False, True, False])}
    assert load_dataset(save(small(**masks), tmp_path)).get("notes") is None
    assert read_pyg(save(Data(edge_index=torch.tensor([[0], [4]])), tmp_path)).num_nodes == 5


def test_undirected(tmp_path: Path) -> None:
    assert load_dataset(save(small(), tmp_path), undirected=True).num_edges == 6


REFUSED = r"^graph\.pt must hold a PyG Data, saved by torch\.save\. Got: the name {} is not admitted\.$"


@pytest.mark.parametrize("inside", [False, True])
def test_nothing_is_run(tmp_path: Path, inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    payload = Call(os.mkdir, "hacked")
    path = save(small(extra=payload) if inside else payload, tmp_path)
    with pytest.raises(ValueError, match=REFUSED.format(r"posix\.mkdir")):
        read_pyg(path)
    assert not (tmp_path / "hacked").exists()


def test_a_class_that_pyg_declares_safe_and_that_opens_another_pickle(tmp_path: Path) -> None:
    """`ClusterData` loads `part_2/metis.pt` with PyG's `fs.torch_load`, which falls back to Python's unpickler."""
    marker = tmp_path / "ran"
    path = write_attack(tmp_path, marker)
    with pytest.raises(ValueError, match=REFUSED.format(r"torch_geometric\.loader\.cluster\.ClusterData")):
        read_pyg(path)
    assert not marker.exists()
    parts = [GlobalStorage, DataEdgeAttr, DataTensorAttr]  # what a Data needs beside the classes that PyG declares
    with (
        torch.serialization.safe_globals(parts),
        pytest.warns(UserWarning, match="Weights only load failed"),
        contextlib.suppress(Exception),
    ):
        torch.load(path, weights_only=True)
    assert marker.exists(), "the payload is live: torch.load(weights_only=True) runs it"


def declared_safe() -> dict[str, Any]:
    """Every name that torch's unpickler of weights would let a file use, torch's own and those of PyG."""
    import torch_geometric.loader  # noqa: F401  (whose classes are declared when they are imported)
    from torch import _weights_only_unpickler as unpickler

    return {**unpickler._get_allowed_globals(), **unpickler._get_user_allowed_globals()}


def test_only_the_names_of_the_table_are_admitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name that torch or PyG declares safe is refused as it is named, unless it is in the table."""
    ours = {f"{module}.{name}" for module, name in (*CONSTRUCTORS, *TENSOR_CONSTRUCTORS)}
    names = [name for name in declared_safe() if name not in ours]
    assert "torch_geometric.loader.cluster.ClusterData" in names
    assert "torch._tensor._rebuild_from_type_v2" in names
    assert len(names) > 50
    for full in names:
        module, _, name = full.rpartition(".")
        for program in (f"c{module}\n{name}\n)R.", f"c{module}\n{name}\n)\x81.", f"c{module}\n{name}\n."):
            path = write_program(tmp_path / "graph.pt", program.encode("latin1"))
            with pytest.raises(ValueError, match=REFUSED.format(re.escape(full))):
                read_pyg(path)


def test_the_table_calls_nothing_of_torch_or_pyg() -> None:
    for made in (*CONSTRUCTORS.values(), *TENSOR_CONSTRUCTORS.values()):
        assert made.__module__.startswith("gpnn.data.")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(tmp_path: Path, protocol: int) -> None:
    torch.save(small(num_classes=2, class_names=["a", "b"]), tmp_path / "graph.pt", pickle_protocol=protocol)
    data = read_pyg(tmp_path / "graph.pt")
    assert data.x.equal(torch.eye(3))
    assert (data.num_classes, data.class_names) == (2, ["a", "b"])


def test_what_versions_of_pyg_keep_beside_the_graph(tmp_path: Path) -> None:
    data = small(attrs=[DataEdgeAttr("coo"), DataTensorAttr, TensorAttr, EdgeAttr("e", "coo")])
    data.layouts, data.note, data.more = {EdgeLayout.COO: 1}, "from 2021", {("a", "to", "b"): torch.ones(2)}
    assert read_pyg(save(data, tmp_path)).edge_index.equal(small().edge_index)
    for name in ("_edge_attr_cls", "_tensor_attr_cls"):  # what PyG before 2.1 does not have
        data.__dict__.pop(name, None)
    assert read_pyg(save(data, tmp_path)).edge_index.equal(small().edge_index)
    slices = defaultdict(dict, x=torch.tensor([0, 3]))
    assert read_pyg(save((small(), slices), tmp_path)).x.equal(torch.eye(3))
    assert read_pyg(save((small().to_dict(), dict(slices), Data), tmp_path)).x.equal(torch.eye(3))


def test_old_pickles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.pt").write_bytes(pickle.dumps(Call(os.mkdir, "hacked")))
    with pytest.raises(
        ValueError, match=r"graph\.pt must hold a PyG Data, saved by torch\.save\. Got: File is not a zip"
    ):
        read_pyg(tmp_path / "graph.pt")
    torch.save(small(), tmp_path / "graph.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(
        ValueError, match=r"graph\.pt must hold a PyG Data, saved by torch\.save\. Got: File is not a zip"
    ):
        read_pyg(tmp_path / "graph.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.eye(3), r"must hold a PyG Data with an edge_index\. Got Tensor\."),
        ({"x": torch.eye(3)}, r"must hold a PyG Data with an edge_index\. Got no edge_index\."),
        (HeteroData(), r"`data` must have at least one edge type\. Got none\."),
        (small(num_nodes=-1), r"num_nodes: must be an integer of at least 1\. Got -1\."),
        (small(num_nodes=2**60), r"must unpack to at most"),
        (small(num_nodes=[3]), r"num_nodes: must be an integer\. Got list\."),
        (small(num_classes="2"), r"num_classes: must be an integer\. Got str\."),
        (small(class_names=[["a"], "b"]), r"class_names: must be a list of text or integers"),
        (Data(x=torch.zeros(1).expand(2**40, 1), edge_index=torch.tensor([[0], [0]])), r"must unpack to at most"),
        (Data(x=[1], edge_index=torch.tensor([[0], [0]])), r"graph\.pt, x: must be a tensor\. Got list\."),
    ],
)
def test_mistakes(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_pyg(save(content, tmp_path))


def test_complex_features_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`x` must be floating point .*\. Got complex64\."):
        load_dataset(save(Data(x=torch.eye(2) * 1j, edge_index=torch.tensor([[0], [1]])), tmp_path))


def test_classes_are_bounded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^`num_classes` must be at most 10,000 for 3 nodes\. Got 1,000,000,000\.$"):
        load_dataset(save(small(num_classes=10**9), tmp_path))


def shop(**also: Any) -> HeteroData:
    """Two users, one of them labelled, and an item without features; `also` are attributes of the edges."""
    data = HeteroData({"user": {"x": torch.ones(2, 4), "y": torch.tensor([0, -1])}, "item": {"num_nodes": 1}})
    edges = {"edge_index": torch.tensor([[0, 1], [0, 0]]), **also}
    for name, value in edges.items():
        data["user", "buys", "item"][name] = value
    return data


class TestHeteroData:
    def test_it_is_the_graph_that_it_is_in_memory(self, tmp_path: Path) -> None:
        given = shop(edge_weight=torch.tensor([0.5, 2.0]))
        expected, data = load_dataset(given), load_dataset(save(given, tmp_path))
        for name in ("x", "y", "edge_index", "edge_type", "edge_weight", "node_type"):
            assert data[name].equal(expected[name]), name
        assert (data.edge_type_names, data.node_type_names) == (["user buys item"], ["user", "item"])
        assert data.train_mask.tolist() == [True, False, False]
        assert load_dataset(save(given, tmp_path), undirected=True).num_edges == 4

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (shop(edge_index=torch.tensor([0, 1])), r"`edge_index` of .* must be integers of shape \[2, E\]"),
            (shop(edge_index=torch.ones(2, 3)), r"`edge_index` of .* must be integers of shape \[2, E\]"),
            (shop(edge_index=torch.tensor([[0], [7]])), r"must hold item ids from 0 to 0\. Got 7\."),
            (shop(edge_index=torch.eye(2).to_sparse()), r"user buys item, edge_index: must be a dense tensor"),
            (shop(edge_weight=torch.ones(5)), r"The weights of .* must be one for each of its 2 edges\. Got 5\."),
            (shop(edge_attr=torch.ones(2, 3)), r"`edge_attr` of .* must be a weight"),
            (shop(edge_attr=["a"]), r"graph\.pt, user buys item, edge_attr: must be a tensor\. Got list\."),
        ],
    )
    def test_mistakes(self, tmp_path: Path, content: HeteroData, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            load_dataset(save(content, tmp_path))

    def test_mistakes_of_nodes(self, tmp_path: Path) -> None:
        data = shop()
        data["item"].num_nodes = 2**60
        with pytest.raises(ValueError, match="must unpack to at most"):
            load_dataset(save(data, tmp_path))
        data["item"].num_nodes, data["item"].x = 2, torch.ones(1, 1)
        with pytest.raises(ValueError, match=r"`x` of 'item' must have one row for each of its 2 nodes\. Got 1\."):
            load_dataset(save(data, tmp_path))
        del data["item"]
        with pytest.raises(ValueError, match=r"The ends of .* must be node types of `data`\. Got 'item'\."):
            load_dataset(save(data, tmp_path))

    def test_nothing_is_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError, match=REFUSED.format(r"posix\.mkdir")):
            load_dataset(save(shop(extra=Call(os.mkdir, "hacked")), tmp_path))
        assert not (tmp_path / "hacked").exists()


def test_a_graph_whose_parts_are_gone(tmp_path: Path) -> None:
    data = small()
    del data.__dict__["_store"]
    with pytest.raises(ValueError, match=r"graph\.pt must hold a Data of PyG 2\. Got one without its parts\."):
        read_pyg(save(data, tmp_path))


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    repeated = small(edge_weight=torch.ones(1).expand(3))  # honest repetition is read
    assert read_pyg(save(repeated, tmp_path)).edge_weight.tolist() == [1, 1, 1]
    huge = Data(x=torch.zeros(1, 1).expand(10**8, 8), edge_index=torch.tensor([[0], [1]]))
    for content in (
        huge,
        Data(edge_index=torch.tensor([[0], [10**9]])),
        Data(edge_index=small().edge_index, num_nodes=10**9),
    ):
        with pytest.raises(
            ValueError, match=r"graph\.pt must unpack to at most 1,000 times its size\. Got [\d,]+ bytes"
        ):
            read_pyg(save(content, tmp_path))
