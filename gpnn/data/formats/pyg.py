"""PyG `Data` saved with `torch.save`, read with a table of our own: no class of PyG and no function of torch is called.

`torch.load(weights_only=True)` would call whatever torch and every imported package declare safe, and PyG declares
classes that open other files and unpickle those (`ClusterData`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.data.formats.torch_archive import StoredSparse, StoredTensor, TorchArchive
from gpnn.data.pickle_machine import Name, refuse_call
from gpnn.data.tables.binary import DAMAGES
from gpnn.storage.read import check_expansion, reason

if TYPE_CHECKING:
    from torch_geometric.data import Data

# What a graph is made of here; other attributes are left behind.
TENSORS = ("x", "edge_index", "edge_attr", "edge_weight", "edge_type", "y", "train_mask", "val_mask", "test_mask")
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
    """A `HeteroData`, which is refused with a hint."""


def _layout_word(word: Any) -> str:
    """An `EdgeLayout`, which is a word."""
    if type(word) is not str:
        raise ValueError("an edge layout must be a word.")
    return word


def _default_dictionary(factory: Any) -> dict[str, Any]:
    if type(factory) is not Name or factory.name != "dict":
        raise ValueError("a defaultdict must make dictionaries.")
    return {}


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
    ("collections", "defaultdict"): _default_dictionary,
    ("__builtin__", "dict"): refuse_call,
    ("builtins", "dict"): refuse_call,
}


def read_pyg(path: Path) -> Data:
    """The graph of a file that `torch.save(data, path)` wrote, or of a dataset's `processed/data.pt` of one graph.

    Raises:
        ValueError: when it names anything but what a `Data` is made of, or holds no single graph.
    """
    try:
        with TorchArchive(path, CONSTRUCTORS) as archive:
            fields = _fields(path, archive.content)
            for name, value in fields.items():
                if isinstance(value, StoredTensor | StoredSparse):
                    fields[name] = archive.tensor(value)
    except FileNotFoundError:
        raise
    except DAMAGES as error:
        if str(error).startswith(path.name):  # a sentence of ours already
            raise
        raise ValueError(f"{path.name} must hold a PyG Data, saved by torch.save. Got: {reason(error)}.") from None
    _check_fields(path, fields)
    return _graph(path, fields)


def _fields(path: Path, content: Any) -> dict[str, Any]:
    """The attributes of the one graph, whichever of PyG's forms it was saved in."""
    if isinstance(content, tuple | list) and content:  # a dataset: its graphs as one, and where each begins
        _check_single(path, content[1] if len(content) > 1 else None)
        content = content[0]
    if isinstance(content, SavedHeteroData):
        raise ValueError(f"{path.name} must hold a Data; save `gpnn.load_dataset(data)`. Got HeteroData.")
    if isinstance(content, Saved):
        store = content.state.get("_store")
        content = store.state.get("_mapping") if isinstance(store, Saved) else None
        if type(content) is not dict:
            raise ValueError(f"{path.name} must hold a Data of PyG 2. Got one without its parts.")
    if type(content) is not dict or content.get("edge_index") is None:
        is_tensor = isinstance(content, StoredTensor | StoredSparse)
        got = "no edge_index" if type(content) is dict else "Tensor" if is_tensor else type(content).__name__
        raise ValueError(f"{path.name} must hold a PyG Data with an edge_index. Got {got}.")
    return {name: content[name] for name in (*TENSORS, *COUNTS, *NAMES) if content.get(name) is not None}


def _check_single(path: Path, slices: Any) -> None:
    if type(slices) is dict:
        most = max((each.size[0] for each in slices.values() if type(each) is StoredTensor and each.size), default=0)
        if most > 2:
            raise ValueError(f"{path.name} must hold one graph. Got a dataset of {most - 1}.")


def _check_fields(path: Path, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if name in TENSORS and not isinstance(value, Tensor):
            raise ValueError(f"{path.name}, {name}: must be a tensor. Got {type(value).__name__}.")
        if name in COUNTS:
            fields[name] = _integer(f"{path.name}, {name}", value)
        if name in NAMES and not (type(value) in (list, tuple) and all(type(each) in (str, int) for each in value)):
            raise ValueError(f"{path.name}, {name}: must be a list of text or integers. Got something else.")


def _integer(where: str, value: Any) -> int:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if type(value) is not int:  # and not printed: lists may nest without end
        raise ValueError(f"{where}: must be an integer. Got {type(value).__name__}.")
    return value


def _graph(path: Path, fields: dict[str, Any]) -> Data:
    from torch_geometric.data import Data

    num_nodes = fields.pop("num_nodes", None)
    data = Data(**fields)
    if num_nodes is None:
        num_nodes = _count(fields)
    if num_nodes < 1:
        raise ValueError(f"{path.name}, num_nodes: must be an integer of at least 1. Got {num_nodes}.")
    check_expansion(path.name, 8 * num_nodes, path.stat().st_size)  # one edge may name any node
    data.num_nodes = num_nodes
    if data.get("x") is not None and data.x.layout == torch.strided and not data.x.is_floating_point():
        data.x = data.x.float()
    return data


def _count(fields: dict[str, Any]) -> int:
    """The rows of the features, else of labels or masks, else what the edges show."""
    for name in ("x", "y", "train_mask"):
        if name in fields and fields[name].dim():
            return fields[name].shape[0]
    edges = fields["edge_index"]
    return int(edges.max()) + 1 if edges.numel() else 0
