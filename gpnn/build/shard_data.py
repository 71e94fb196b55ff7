"""A dataset as a folder of shards: graph, features, labels, masks and names, cut and read back."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.check import check_columns, check_edge_attributes, digest_data, digest_labels
from gpnn.data.diel import gold_pairs
from gpnn.data.features import feature_scale
from gpnn.data.tables.vocabulary import Vocabulary
from gpnn.distributed import NodeOrder, ProcessGroup, Shard, ShardIndex, read_shard, write_shards
from gpnn.graph import as_graph
from gpnn.partition import Partition
from gpnn.run.known_nodes import RowDigests
from gpnn.storage.read import shorten
from gpnn.train.notes import Facts, Note, take_notes
from gpnn.train.task import task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

COLUMNS = ("x", "y", "train_mask", "val_mask", "test_mask", "sample_weight")
WITHOUT_DIGESTS = Note(
    "the shards were written by an older version, without digests, so that a changed file is not noticed",
    "`gpnn partition … --shards` writes them anew",
    "gpnn.build.shard_data.write_data writes them anew",
)


def write_data(data: Data, part: Partition, num_shards: int, folder: Path, *, name: str) -> ShardIndex:
    """Write graph, features, labels, masks and names of a dataset as a folder of shards."""
    check_edge_attributes(data)
    graph = as_graph(data)
    columns = {column: data[column] for column in COLUMNS if data.get(column) is not None}
    names = data.get("node_name")
    facts = {
        "name": name,
        "num_outputs": None if data.get("y") is None else task_of(data).num_outputs,
        "task": data.get("task"),
        "num_classes": data.get("num_classes"),
        "class_names": data.get("class_names"),
        "vocabulary": None if data.get("vocabulary") is None else data.vocabulary.to_mapping(),
        "names": None,
        "graph": asdict(Facts.of(data, part)),
        "notes": data.get("notes"),
        "x_scale": None if feature_scale(data) is None else data.x_scale.tolist(),
        "rows": RowDigests.of(data)._asdict() if names is None else None,
        "data_sha256": digest_data(data),
        "partition_sha256": digest_labels(part.labels),
    }
    if data.get("gold_class") is not None:
        facts["lists"] = {name: data[name] for name in ("num_lists", "recall_k")}
        facts["lists"]["gold_class"] = data.gold_class.tolist()
        columns["gold_pairs"] = gold_pairs(data)
    if names is not None:
        kind, values = _encode_names(names)
        facts["names"], columns["node_name"] = kind, values
    return write_shards(folder, graph, NodeOrder.of(graph, part, num_shards), columns, facts)


def num_outputs(index: ShardIndex) -> int:
    """Outputs that a model of the shards' task has; folders of older versions hold classes.

    Raises:
        ValueError: when they have no labels.
    """
    found = index.facts.get("num_outputs", index.facts.get("num_classes"))
    if found is None:
        raise ValueError("The shards must have labels to learn from. Got none.")
    if type(found) is not int or found < 1:
        raise ValueError(f"`num_outputs` in shards.json must be an integer of at least 1. Got {shorten(found)}.")
    return found


def read_data(index: ShardIndex, columns: dict[str, Tensor], num_nodes: int) -> Data:
    """A process's nodes as a `Data` without edges: these are in the plan.

    Raises:
        ValueError: when features, labels or masks are not sound.
    """
    from torch_geometric.data import Data

    data = Data(num_nodes=num_nodes, **{name: columns[name] for name in COLUMNS if name in columns})
    for name in ("task", "num_classes", "class_names"):
        if index.facts.get(name) is not None:
            data[name] = index.facts[name]
    if index.facts.get("x_scale") is not None:
        data.x_scale = torch.tensor(index.facts["x_scale"], dtype=torch.float32)
    if index.facts.get("vocabulary") is not None:
        data.vocabulary = Vocabulary.from_mapping(index.facts["vocabulary"])
    if index.facts.get("rows") is not None:
        data.row_digests = RowDigests.parse(index.facts["rows"], "shards.json")._asdict()
    try:
        if "node_name" in columns:
            data.node_name = _decode_names(index.facts["names"], columns["node_name"])
        checked = check_columns(data, "regression" if index.facts.get("task") == "regression" else "classification")
        if "y" in columns:
            data.y = checked.y
    except ValueError as error:
        raise ValueError(f"{index.folder} must hold sound shards. {error}") from None
    if "gold_pairs" in columns:
        _read_lists(data, index, columns["gold_pairs"])
    return data


def _read_lists(data: Data, index: ShardIndex, pairs: Tensor) -> None:
    """Give a process's nodes what :func:`gpnn.distributed.schedules.recall_of_shards` reads.

    Raises:
        ValueError: when it does not fit the nodes.
    """
    try:
        lists = index.facts["lists"]
        data.num_lists, data.recall_k = int(lists["num_lists"]), int(lists["recall_k"])
        data.gold_class, data.gold_pairs = torch.tensor(lists["gold_class"], dtype=torch.int64), pairs
        sound = pairs.layout == torch.sparse_csr and list(pairs.shape) == [data.num_nodes, len(data.gold_class)]
    except (TypeError, LookupError, ValueError, RuntimeError, OverflowError):
        sound = False
    if not sound:
        raise ValueError(f"{index.folder} must hold sound shards. Got gold pairs that do not fit its nodes.")


def read_own(index: ShardIndex, group: ProcessGroup) -> tuple[Shard, Data]:
    """This process's shard and its nodes' features, labels and masks."""
    shard, columns = read_shard(index, group.rank, group.size)
    return shard, read_data(index, columns, shard.num_own)


def shard_digests(index: ShardIndex) -> dict[str, str]:
    """Digests of the data, its subgraphs and all files; folders of older versions have only the last."""
    names = ("data_sha256", "partition_sha256")
    return {name: index.facts[name] for name in names if name in index.facts} | {"shards_sha256": index.sha256}


def shard_notes(index: ShardIndex, message: str) -> list[Note]:
    """The notes of a training with a message function; of folders of older versions only that they are old."""
    stored, old = index.facts.get("graph"), [] if index.digests is not None else [WITHOUT_DIGESTS]
    if stored is None:
        return old
    facts = replace(Facts.parse(stored, "shards.json"), message=message)
    decided = index.facts.get("notes", index.facts.get("remarks")) or []
    if not isinstance(decided, list) or not all(isinstance(note, str) for note in decided):
        raise ValueError(f"`notes` in shards.json must be texts. Got {shorten(decided)}.")
    return [*old, *take_notes(facts, decided)]


def _encode_names(names: Any) -> tuple[str, Tensor]:
    """Integers as they are; texts as UTF-8, filled up to the longest with zero bytes, `[N, L]`."""
    values = np.asarray(names)
    if values.dtype.kind in "iu":
        return "integer", torch.from_numpy(values.astype(np.int64))
    texts = np.char.encode(values.astype(str), "utf-8")
    return "text", torch.from_numpy(texts.view(np.uint8).reshape(len(texts), -1).copy())


def _decode_names(kind: Any, values: Tensor) -> np.ndarray:
    """The names; a ValueError where the tensor does not hold such names: UnicodeDecodeError is one."""
    dtype, width = (torch.int64, 1) if kind == "integer" else (torch.uint8, 2)
    if kind not in ("integer", "text") or values.dtype != dtype or values.dim() != width or not values.numel():
        raise ValueError(f"The names of nodes must be integers [N] or bytes of texts [N, L]. Got {shorten(kind)}.")
    if kind == "integer":
        return values.numpy()
    array = np.ascontiguousarray(values.numpy())
    return np.char.decode(array.view(f"S{array.shape[1]}").ravel(), "utf-8").astype(object)
