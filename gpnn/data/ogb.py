"""Datasets of the Open Graph Benchmark, through its own package, from files that are there already."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.check import install_command
from gpnn.data.files import named_reader
from gpnn.data.splits import split_nodes
from gpnn.data.tables.binary import DAMAGES, read_archive
from gpnn.data.torch_archive import StoredTensor, TorchArchive
from gpnn.data.unpickle import CONSTRUCTORS, finish
from gpnn.storage.read import reason

if TYPE_CHECKING:
    from torch_geometric.data import Data

NAMES = ("ogbn-arxiv", "ogbn-products", "ogbn-proteins", "ogbn-papers100M")
RAW = {"ogbn-papers100M": "data.npz"}  # the others have edge.csv.gz


def read_ogb(name: str, root: Path) -> Data:
    """A dataset of `NAMES` with its split; nothing is downloaded, and no question is put to the user.

    Args:
        name: the dataset.
        root: the folder that holds its own, such as `ogbn_arxiv`.

    Raises:
        ValueError: when its files are not there.
        ImportError: without the package, naming the extra.
    """
    raw = root / raw_file(name)
    folder = raw.parents[1]
    if not raw.is_file():
        raise ValueError(f"{name} must be unpacked in {folder} (its archive: ogb.stanford.edu). Got no {raw.name}.")
    if not list(folder.glob("RELEASE_v*.txt")):
        raise ValueError(f"{folder} must hold the RELEASE_v*.txt of its archive. Got none.")
    try:
        return _read(name, root, raw.parent)
    except DAMAGES as error:
        raise ValueError(f"{folder} must hold the undamaged files of {name}. Got: {reason(error)}.") from None


def raw_file(name: str) -> str:
    """The path under the data folder of the file that holds a dataset's edges."""
    return f"{name.replace('-', '_')}/raw/{RAW.get(name, 'edge.csv.gz')}"


def _read(name: str, root: Path, raw: Path) -> Data:
    """The graph from its raw files: the package would keep what it read as a pickle, and load that the next time."""
    try:
        from ogb.io.read_graph_raw import read_binary_graph_raw, read_csv_graph_raw
        from ogb.nodeproppred import NodePropPredDataset
    except ImportError:
        raise ImportError(f"{name} needs the Open Graph Benchmark package: {install_command('ogb')}.") from None

    class Unkept(NodePropPredDataset):
        def pre_process(self) -> None:
            inverse = self.meta_info["add_inverse_edge"] == "True"
            read = read_binary_graph_raw if self.binary else read_csv_graph_raw
            self.graph = read(str(raw), add_inverse_edge=inverse)[0]
            self.labels = _read_labels(raw, binary=self.binary)

        def get_idx_split(self, split_type: str | None = None) -> dict[str, Any]:
            kept = Path(self.root) / "split" / (split_type or self.meta_info["split"]) / "split_dict.pt"
            return read_split(kept) if kept.is_file() else super().get_idx_split(split_type)

    with redirect_stdout(sys.stderr):
        dataset = Unkept(name=name, root=str(root))
        graph, labels = dataset[0]
        return _graph(graph, labels, dataset.get_idx_split(), dataset.task_type)


def read_split(path: Path) -> dict[str, Any]:
    """The parts of a split that is kept as one file of torch: tensors or arrays of nodes by their names.

    Raises:
        ValueError: when it names anything but what these are made of.
    """
    with TorchArchive(path, CONSTRUCTORS) as archive:
        parts = archive.content
        if type(parts) is not dict:
            raise ValueError(f"{path.name} must hold a dictionary")
        return {
            name: archive.tensor(part) if isinstance(part, StoredTensor) else finish(part)
            for name, part in parts.items()
        }


def _read_labels(raw: Path, *, binary: bool) -> np.ndarray:
    if binary:
        return read_archive(raw / "node-label.npz")["node_label"]
    import gzip

    with gzip.open(raw / "node-label.csv.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",", ndmin=2)


def _graph(graph: dict[str, Any], labels: np.ndarray, parts: dict[str, Any], task: str) -> Data:
    from torch_geometric.data import Data

    data = Data(edge_index=torch.from_numpy(np.array(graph["edge_index"])), num_nodes=int(graph["num_nodes"]))
    if graph.get("node_feat") is not None:
        data.x = torch.from_numpy(np.array(graph["node_feat"], np.float32))
    data.y = _labels(labels, task)
    nodes = (np.array(parts[part]) for part in ("train", "valid", "test"))
    for name, mask in split_nodes(data.num_nodes, *nodes)._asdict().items():
        data[name] = mask
    return data


def _labels(labels: np.ndarray, task: str) -> Tensor:
    """Classes `[N]`, -1 where unknown (NaN there); or zeros and ones of several tasks, `[N, C]`."""
    if task == "binary classification" and labels.shape[1] > 1:
        return torch.from_numpy(labels.astype(np.float32))
    return torch.from_numpy(np.nan_to_num(labels.reshape(len(labels)), nan=-1.0).astype(np.int64))


LINE = "The Open Graph Benchmark's {}, from unpacked files (extra ogb)."
OGB = {name: named_reader(read_ogb, name, LINE.format(name)) for name in NAMES}
