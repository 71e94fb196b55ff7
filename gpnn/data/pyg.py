"""PyG `Data` and `HeteroData` saved with `torch.save`, read with a table of our own.

No class of PyG and no function of torch is called on the file's behalf.

`torch.load(weights_only=True)` would call whatever torch and every imported package declare safe, and PyG declares
classes that open other files and unpickle those (`ClusterData`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.data.check import data_from_hetero
from gpnn.data.pickle_machine import default_dictionary, refuse_call
from gpnn.data.splits import MASKS
from gpnn.data.tables.binary import DAMAGES
from gpnn.data.torch_archive import StoredSparse, StoredTensor, TorchArchive
from gpnn.storage.read import check_expansion, undamaged

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

# What a graph is made of here; other attributes are left behind.
TENSORS = ("x", "edge_index", "edge_attr", "edge_weight", "edge_type", "y", *MASKS)
COUNTS = ("num_nodes", "num_classes")
NAMES = ("class_names", "feature_names", "edge_type_names")


class Saved:
    """An object of PyG as the file has it: its attributes by name, and nothing that it could do."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def set_state(self, state: Any) -> None:
        if type(state) is not dict:
            raise ValueError(f"the state of an object must be a dictionary. Got {type(state).__name__}.")
        self.state = state


class SavedHeteroData(Saved):
    """A `HeteroData`."""


def _layout_word(word: Any) -> str:
    """An `EdgeLayout`, which is a word."""
    if type(word) is not str:
        raise ValueError("an edge layout must be a word.")
    return word


# Beside those of tensors, the names in what PyG 2 saves: a Data and its storage, and the slices of a dataset.
CONSTRUCTORS: dict[tuple[str, str], Callable[..., Any]] = {
    ("torch_geometric.data.data", "Data"): Saved,
    ("torch_geometric.data.data", "DataEdgeAttr"): Saved,
    ("torch_geometric.data.data", "DataTensorAttr"): Saved,
    ("torch_geometric.data.storage", "BaseStorage"): Saved,
    ("torch_geometric.data.storage", "GlobalStorage"): Saved,
    ("torch_geometric.data.storage", "NodeStorage"): Saved,
    ("torch_geometric.data.storage", "EdgeStorage"): Saved,
    ("torch_geometric.data.feature_store", "TensorAttr"): Saved,
    ("torch_geometric.data.graph_store", "EdgeAttr"): Saved,
    ("torch_geometric.data.graph_store", "EdgeLayout"): _layout_word,
    ("torch_geometric.data.hetero_data", "HeteroData"): SavedHeteroData,
    ("collections", "defaultdict"): default_dictionary("dict"),
    ("__builtin__", "dict"): refuse_call,
    ("builtins", "dict"): refuse_call,
}


def read_pyg(path: Path, task: str = "auto") -> Data:
    """The graph of a file that `torch.save(data, path)` wrote, or of a dataset's `processed/data.pt` of one graph.

    A `HeteroData` is made one graph (:func:`gpnn.data.check.data_from_hetero`).

    Args:
        path: the file.
        task: what the labels of a `HeteroData` are, as of :func:`gpnn.data.labels.check_labels`.

    Raises:
        ValueError: when it names anything but what a `Data` is made of, or holds no single graph.
    """
    expected = "hold a PyG Data, saved by torch.save"
    with undamaged(path.name, expected, DAMAGES), TorchArchive(path, CONSTRUCTORS) as archive:
        content = _single(path, archive.content)
        if isinstance(content, SavedHeteroData):
            found: Any = _hetero(path, content, archive)
        else:
            found = _read_fields(path.name, path, _mapping(path, content), archive)
    return _graph(path, found) if isinstance(found, dict) else data_from_hetero(found, task)


def _single(path: Path, content: Any) -> Any:
    """The one graph, whichever of PyG's forms it was saved in."""
    if isinstance(content, tuple | list) and content:  # a dataset: its graphs as one, and where each begins
        _check_single(path, content[1] if len(content) > 1 else None)
        return content[0]
    return content


def _mapping(path: Path, content: Any) -> dict[str, Any]:
    """The attributes of a `Data`."""
    if isinstance(content, Saved):
        content = _store(content.state.get("_store"))
        if content is None:
            raise ValueError(f"{path.name} must hold a Data of PyG 2. Got one without its parts.")
    if type(content) is not dict or content.get("edge_index") is None:
        is_tensor = isinstance(content, StoredTensor | StoredSparse)
        got = "no edge_index" if type(content) is dict else "Tensor" if is_tensor else type(content).__name__
        raise ValueError(f"{path.name} must hold a PyG Data with an edge_index. Got {got}.")
    return content


def _store(store: Any) -> dict[str, Any] | None:
    """The attributes of one of PyG's storages."""
    content = store.state.get("_mapping") if isinstance(store, Saved) else None
    return content if type(content) is dict else None


def _read_fields(where: str, path: Path, content: dict[str, Any], archive: TorchArchive) -> dict[str, Any]:
    """The attributes that a graph is made of here, checked; `where` is what errors call their owner."""
    fields = {name: content[name] for name in (*TENSORS, *COUNTS, *NAMES) if content.get(name) is not None}
    for name, value in fields.items():
        if isinstance(value, StoredTensor | StoredSparse):
            fields[name] = archive.tensor(value)
    _check_fields(where, fields)
    if "num_nodes" in fields:
        _check_count(where, path, fields["num_nodes"])
    return fields


def _hetero(path: Path, content: Saved, archive: TorchArchive) -> HeteroData:
    from torch_geometric.data import HeteroData

    nodes, edges = (content.state.get(f"_{part}_store_dict") for part in ("node", "edge"))
    if type(nodes) is not dict or type(edges) is not dict:
        raise ValueError(f"{path.name} must hold a HeteroData of PyG 2. Got one without its parts.")
    data = HeteroData()
    for kind, store in (*nodes.items(), *edges.items()):
        words = kind if type(kind) is tuple else (kind,)
        mapping = _store(store)
        if mapping is None or len(words) not in (1, 3) or any(type(word) is not str for word in words):
            raise ValueError(f"{path.name} must name node types by a word and edge types by three. Got others.")
        where = f"{path.name}, {' '.join(words)[:80]}"
        fields = _read_fields(where, path, mapping, archive)
        for name in (each for each in fields if each in (*TENSORS, "num_nodes")):
            if name in TENSORS[1:] and fields[name].layout != torch.strided:
                raise ValueError(f"{where}, {name}: must be a dense tensor. Got {fields[name].layout}.")
            data[kind][name] = fields[name]
        if len(words) == 1 and "num_nodes" not in fields:
            data[kind].num_nodes = _count(where, fields)
    return data


def _check_single(path: Path, slices: Any) -> None:
    if type(slices) is dict:
        most = max((each.size[0] for each in slices.values() if type(each) is StoredTensor and each.size), default=0)
        if most > 2:
            raise ValueError(f"{path.name} must hold one graph. Got a dataset of {most - 1}.")


def _check_fields(where: str, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if name in TENSORS and not isinstance(value, Tensor):
            raise ValueError(f"{where}, {name}: must be a tensor. Got {type(value).__name__}.")
        if name in COUNTS:
            fields[name] = _integer(f"{where}, {name}", value)
        if name in NAMES and not (type(value) in (list, tuple) and all(type(each) in (str, int) for each in value)):
            raise ValueError(f"{where}, {name}: must be a list of text or integers. Got something else.")


def _integer(where: str, value: Any) -> int:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if type(value) is not int:  # and not printed: lists may nest without end
        raise ValueError(f"{where}: must be an integer. Got {type(value).__name__}.")
    return value


def _check_count(where: str, path: Path, num_nodes: int) -> None:
    if num_nodes < 1:
        raise ValueError(f"{where}, num_nodes: must be an integer of at least 1. Got {num_nodes}.")
    check_expansion(path.name, 8 * num_nodes, path.stat().st_size)  # one edge may name any node


def _graph(path: Path, fields: dict[str, Any]) -> Data:
    from torch_geometric.data import Data

    num_nodes = fields.pop("num_nodes", None)
    data = Data(**fields)
    if num_nodes is None:
        num_nodes = _count(path.name, fields)
        _check_count(path.name, path, num_nodes)
    data.num_nodes = num_nodes
    x = data.get("x")
    if x is not None and x.layout == torch.strided and not (x.is_floating_point() or x.is_complex()):
        data.x = x.float()
    return data


def _count(where: str, fields: dict[str, Any]) -> int:
    """The rows of the features, else of labels or masks, else what the edges show."""
    for name in ("x", "y", "train_mask"):
        if name in fields and fields[name].dim():
            return fields[name].shape[0]
    edges = fields.get("edge_index")
    if edges is None:
        raise ValueError(f"{where}: must have x or num_nodes. Got neither.")
    return int(edges.max()) + 1 if edges.numel() else 0
