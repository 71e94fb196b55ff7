"""PyG `Data` saved with `torch.save`, read by torch's unpickler of weights, which calls only what PyG admits."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.data.tables.limits import check_size

if TYPE_CHECKING:
    from torch_geometric.data import Data

# What a graph is made of here; other attributes are left behind.
TENSORS = ("x", "edge_index", "edge_attr", "edge_weight", "edge_type", "y", "train_mask", "val_mask", "test_mask")
PLAIN = ("num_nodes", "num_classes", "class_names", "feature_names", "edge_type_names")


def read_pyg(path: Path) -> Data:
    """The graph of a file that `torch.save(data, path)` wrote, or of a dataset's `processed/data.pt` of one graph.

    Raises:
        ValueError: when it holds anything that torch does not load as plain weights, or no single graph.
    """
    _check_archive(path)
    try:
        with torch.serialization.safe_globals(_parts_of_data()):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (
        pickle.UnpicklingError, RuntimeError, ValueError, EOFError, TypeError, AttributeError, KeyError, IndexError,
        OverflowError, AssertionError, ImportError, UnicodeError, NotImplementedError, MemoryError, OSError,
    ) as error:  # fmt: skip
        raise ValueError(f"{path.name} must hold a PyG Data that is safe to load. Got: {_reason(error)}.") from None
    fields = _fields(path, content)
    _check_tensors(path, fields)
    return _graph(path, fields)


def _parts_of_data() -> list[Any]:
    """The classes that a saved `Data` is made of, besides those that PyG names to torch: plain containers all."""
    from torch_geometric.data import data, storage

    names = ("BaseStorage", "NodeStorage", "EdgeStorage", "GlobalStorage")
    return [data.DataEdgeAttr, data.DataTensorAttr, *(getattr(storage, name) for name in names)]


def _check_archive(path: Path) -> None:
    """Only torch's zip files, and none that unpacks to more than fits."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_size(path.name, sum(member.file_size for member in archive.infolist()))
    except (zipfile.BadZipFile, EOFError, NotImplementedError, UnicodeError) as error:
        raise ValueError(f"{path.name} must be a file that torch.save wrote. Got: {_reason(error)}.") from None


def _fields(path: Path, content: Any) -> dict[str, Any]:
    """The attributes of the one graph, whichever of PyG's forms it was saved in."""
    from torch_geometric.data import Data, HeteroData

    if isinstance(content, tuple | list) and content:  # a dataset: its graphs as one, and where each begins
        if len(content) > 1 and content[1]:
            lengths = [len(each) for each in content[1].values()] if isinstance(content[1], dict) else [0]
            if max(lengths, default=0) > 2:
                raise ValueError(f"{path.name} must hold one graph. Got a dataset of {max(lengths) - 1}.")
        content = content[0]
    if isinstance(content, HeteroData):
        raise ValueError(f"{path.name} must hold a Data; save `data.to_homogeneous()`. Got HeteroData.")
    if isinstance(content, Data):
        try:
            content = content.to_dict()
        except (AttributeError, TypeError, KeyError, ValueError, RuntimeError) as error:  # a state of its own making
            raise ValueError(f"{path.name} must hold a PyG Data. Got a damaged one: {_reason(error)}.") from None
    if not isinstance(content, dict) or not isinstance(content.get("edge_index"), Tensor):
        got = type(content).__name__ if not isinstance(content, dict) else "no edge_index"
        raise ValueError(f"{path.name} must hold a PyG Data with an edge_index. Got {got}.")
    return {name: content[name] for name in (*TENSORS, *PLAIN) if content.get(name) is not None}


def _check_tensors(path: Path, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if name in PLAIN:
            continue
        if not isinstance(value, Tensor):
            raise ValueError(f"{path.name}, {name}: must be a tensor. Got {type(value).__name__}.")
        if value.layout == torch.strided and not value.is_quantized:
            check_size(path.name, value.numel() * value.element_size())  # a stride of 0 repeats without storage


def _graph(path: Path, fields: dict[str, Any]) -> Data:
    from torch_geometric.data import Data

    num_nodes = fields.pop("num_nodes", None)
    data = Data(**fields)
    if num_nodes is None:
        num_nodes = _count(fields)
    if isinstance(num_nodes, Tensor):
        num_nodes = int(num_nodes.reshape(-1)[0]) if num_nodes.numel() == 1 else num_nodes.shape
    if not isinstance(num_nodes, int) or num_nodes < 1:
        raise ValueError(f"{path.name}, num_nodes: must be an integer of at least 1. Got {num_nodes}.")
    check_size(path.name, 8 * num_nodes)
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


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = next((line for line in lines if line.startswith(("WeightsUnpickler", "Unsupported"))), lines[:1])
    text = found if isinstance(found, str) else " ".join(found)
    return text[:200].rstrip(".") or type(error).__name__
