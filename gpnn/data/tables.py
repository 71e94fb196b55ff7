"""A folder of the user's own tables: `nodes.csv`, `edges.csv` and, if wanted, `features.npz` and `labels.npz`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.labels import check_labels, labelled_nodes
from gpnn.data.sparse import features
from gpnn.data.splits import Split, split_fractions
from gpnn.data.table import Table, read_table
from gpnn.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

PARTS = {"": -1, "train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}


def tables(folder: str | Path, *, undirected: bool = False, seed: int = 0) -> Data:
    """The graph that a folder of tables describes.

    `nodes.csv` has a column `id` (any distinct text), and may have `label` (any text; empty where unknown),
    `split` (train, val, test or empty) and further columns of numbers, which are the features. `edges.csv` has
    `source` and `target`, and may have `type` (any text) and `weight` (numbers). `features.npz` holds instead
    of further columns one row of features a node, in the order of `nodes.csv`: a matrix that
    `scipy.sparse.save_npz` wrote, or one dense array. Without `split`, 60 % of each class train, 20 % validate.
    Where a node may have several labels, `labels.npz` holds instead of `label` zeros and ones, one row a node and one
    column a label, in either of these forms; a row of -1 or NaN is unlabelled.

    The result has `node_name` (the ids), and `class_names`, `edge_type_names` and `feature_names` where the
    tables name them.

    Args:
        folder: the folder.
        undirected: add the reverse of every edge that lacks it.
        seed: the draw of a split that the tables do not give.

    Raises:
        ValueError: in one sentence that names the file, the line, the column and the value.
    """
    from torch_geometric.data import Data

    folder = Path(folder)
    nodes = read_table(folder, "nodes", required=("id",))
    edges = read_table(folder, "edges", required=("source", "target"), optional=("type", "weight"))
    names = nodes.distinct("id")
    if not len(names):
        raise ValueError(f"{nodes.file} must hold at least one node. Got none.")
    data = Data(num_nodes=len(names), node_name=names.to_pylist())
    _add_edges(data, edges, nodes, undirected=undirected)
    _add_features(data, nodes, folder)
    _add_labels(data, nodes, folder)
    if data.get("y") is not None:
        for name, mask in _split(nodes, data.y, seed)._asdict().items():
            data[name] = mask
    return data


def _add_edges(data: Data, edges: Table, nodes: Table, *, undirected: bool) -> None:
    src, dst = (edges.positions(end, nodes.columns["id"], nodes.file) for end in ("source", "target"))
    edge_type = weight = None
    if "type" in edges.columns:
        types, data.edge_type_names = edges.numbered("type")
        edge_type = torch.from_numpy(types)
    if "weight" in edges.columns:
        weight = torch.from_numpy(edges.numbers("weight")).float()
    graph = Graph(torch.from_numpy(src), torch.from_numpy(dst), data.num_nodes, edge_type, weight)
    graph = graph.to_undirected() if undirected else graph
    data.edge_index = torch.stack([graph.src, graph.dst])
    if graph.edge_type is not None:
        data.edge_type = graph.edge_type
    if graph.edge_weight is not None:
        data.edge_weight = graph.edge_weight


def _add_features(data: Data, nodes: Table, folder: Path) -> None:
    further = [column for column in nodes.columns if column not in ("id", "label", "split")]
    path = folder / "features.npz"
    if path.is_file() and further:
        raise ValueError(
            f"Features must stand either in features.npz or in columns of nodes.csv. Got both: {', '.join(further)}."
        )
    if path.is_file():
        data.x = _read_matrix(path, data.num_nodes)
    elif further:
        columns = [nodes.numbers(column).astype(np.float32) for column in further]
        data.x, data.feature_names = torch.from_numpy(np.stack(columns, axis=1)), further


def _add_labels(data: Data, nodes: Table, folder: Path) -> None:
    path = folder / "labels.npz"
    if path.is_file() and "label" in nodes.columns:
        raise ValueError("Labels must stand either in labels.npz or in the column label of nodes.csv. Got both.")
    if path.is_file():
        labels = _read_matrix(path, data.num_nodes).to_dense()
        if labels.shape[1] < 2:
            raise ValueError(f"labels.npz must have at least two columns, one a label. Got {labels.shape[1]}.")
        data.y = check_labels(labels, data.num_nodes)
    elif "label" in nodes.columns:
        y, data.class_names = nodes.numbered("label", unknown=("", "-1"))
        data.y, data.num_classes = torch.from_numpy(y), len(data.class_names)


def _read_matrix(path: Path, num_nodes: int) -> Tensor:
    from zipfile import BadZipFile

    try:
        with np.load(path, allow_pickle=False) as arrays:
            x = _sparse(path) if "format" in arrays else _dense(arrays)
    except (ValueError, OSError, KeyError, BadZipFile) as error:
        raise ValueError(f"{path.name} must hold one array of numbers or a scipy matrix. Got: {error}") from None
    if x.shape[0] != num_nodes:
        raise ValueError(f"{path.name} must have one row for each of the {num_nodes} nodes. Got {x.shape[0]}.")
    return x


def _sparse(path: Path) -> Tensor:
    from scipy.sparse import load_npz

    matrix = load_npz(path).tocsr()
    matrix.check_format(full_check=True)  # indices out of range would be read as memory
    return features(matrix, sparse=True)


def _dense(arrays: Any) -> Tensor:
    if len(arrays.files) != 1:
        raise ValueError(f"{len(arrays.files)} arrays, {', '.join(arrays.files)}.")
    values = arrays[arrays.files[0]]
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise ValueError(f"an array of {values.ndim} dimensions and type {values.dtype}.")
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


def _split(nodes: Table, y: Tensor, seed: int) -> Split:
    known = labelled_nodes(y)
    if "split" not in nodes.columns:
        return split_fractions(y if y.dim() == 1 else known.long() - 1, seed=seed)
    part = np.array([PARTS.get(value, -2) for value in nodes.columns["split"].to_pylist()])
    if (part == -2).any():
        nodes.refuse("split", int((part == -2).argmax()), "must be train, val, test or empty")
    unlabelled = (part >= 0) & (part != PARTS["test"]) & ~known.numpy()
    if unlabelled.any():
        nodes.refuse("split", int(unlabelled.argmax()), "must be test or empty where the label is unknown")
    return Split(*(torch.from_numpy(part == number) for number in range(3)))
