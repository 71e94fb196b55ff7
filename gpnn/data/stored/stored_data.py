"""load_stored: a graph on the disk as PyG `Data` whose arrays are mapped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.check import MASKS, check_columns
from gpnn.data.features import csr_tensor
from gpnn.data.stored.stored_graph import StoredGraph, open_stored
from gpnn.data.tables.vocabulary import Vocabulary
from gpnn.graph import EdgeDigest, Graph
from gpnn.storage.read import reason

if TYPE_CHECKING:
    from torch_geometric.data import Data


def load_stored(folder: str | Path, vocabulary: Vocabulary | None = None) -> Data:
    """The graph, features, labels and masks of a folder that `gpnn data convert` wrote, mapped, not read.

    Instead of `edge_index` the result has `graph`, a :class:`gpnn.Graph` in CSR form: what takes a `Data` takes it.

    Args:
        folder: the folder.
        vocabulary: unused: columns, classes and edge types have the meaning that they were converted with.

    Raises:
        ValueError: when the folder does not hold a whole graph.
    """
    from torch_geometric.data import Data

    stored = open_stored(folder)
    facts = stored.facts
    data = Data(num_nodes=stored.num_nodes, graph=stored_rows(stored), notes=list(facts["notes"]))
    for name in ("y", *MASKS):
        if (values := _tensor(stored, name)) is not None:
            data[name] = values
    if (names := stored_names(stored)) is not None:
        data.node_name = names
    for name in ("task", "num_classes", "class_names", "edge_type_names", "feature_names"):
        if facts.get(name) is not None:
            data[name] = facts[name]
    data.vocabulary = Vocabulary.from_mapping(facts["vocabulary"])
    return _checked(data, _features(stored))


def _checked(data: Data, x: Tensor | None) -> Data:
    """The data with labels and masks checked, and features, which were when they were written: they may be large."""
    data = check_columns(data)
    if x is not None:
        data.x = x
    return data


def stored_rows(stored: StoredGraph) -> Graph:
    """The structure of a graph on the disk, over its maps."""
    out = None if stored.symmetric else (_tensor(stored, "out_ptr"), _tensor(stored, "out_col"))
    return Graph.from_csr(
        _tensor(stored, "in_ptr"),
        _tensor(stored, "in_col"),
        symmetric=stored.symmetric,
        out=out,
        edge_type=_tensor(stored, "edge_type"),
        edge_weight=_tensor(stored, "edge_weight"),
        known_digest=EdgeDigest(*stored.facts["edge_digest"]),
    )


def stored_names(stored: StoredGraph) -> np.ndarray | None:
    """The id of each node, `[N]`, int64 or text; None where they are the numbers of the rows."""
    if (numbers := stored.get("ids")) is not None:
        _check_length(stored, "ids", numbers, stored.num_nodes)
        return numbers
    if (ptr := stored.get("id_ptr")) is None:
        return None
    import pyarrow

    _check_length(stored, "id_ptr", ptr, stored.num_nodes + 1)
    buffers = [None, pyarrow.py_buffer(ptr), pyarrow.py_buffer(stored.array("id_text"))]
    try:
        text = pyarrow.Array.from_buffers(pyarrow.large_string(), stored.num_nodes, buffers)
        text.validate(full=True)  # offsets outside the text would be read wherever they point
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{stored.folder / 'id_ptr.npy'} must point into id_text.npy. Got: {reason(error)}.") from None
    return text.to_numpy(zero_copy_only=False)


def _check_length(stored: StoredGraph, name: str, values: np.ndarray, length: int) -> None:
    if values.dtype != np.int64 or values.shape != (length,):
        found = f"{values.dtype} {list(values.shape)}"
        raise ValueError(f"{stored.folder / name}.npy must hold int64 [{length}]. Got {found}.")


def _features(stored: StoredGraph) -> Tensor | None:
    if (ptr := stored.get("x_ptr")) is not None:
        shape = (stored.num_nodes, int(stored.facts["num_features"]))
        return csr_tensor(ptr, stored.array("x_col"), stored.array("x_value"), shape)
    x = _tensor(stored, "x")
    if x is None or x.is_floating_point():
        return x
    return x.float().mul_(torch.from_numpy(stored.array("x_scale")))  # 8 bits a value: in memory, not mapped


def _tensor(stored: StoredGraph, name: str) -> Any:
    values = stored.get(name)
    return None if values is None else torch.from_numpy(values)
