"""A graph on the disk: `graph.json` and the `.npy` files that it names; see docs/large-graphs.md for the format.

`graph.json` is written last and holds the digests of all files and of itself, so that a folder that has it is whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.check import check_columns
from gpnn.data.features import csr_tensor, float_features
from gpnn.data.npy_file import map_array, read_header
from gpnn.data.splits import MASKS
from gpnn.data.tables.vocabulary import Vocabulary
from gpnn.graph import EdgeDigest, Graph
from gpnn.graph.edges import check_ids, check_rows
from gpnn.storage.atomic import write_text
from gpnn.storage.read import read_json, seal, shorten, undamaged, unseal
from gpnn.storage.tensors import BlockCheck, digest_blocks

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data

INDEX, FORMAT, VERSION = "graph.json", "gpnn graph", 1
WIDENED = 1 << 31  # features of 8 bits, up to so many, are read into memory in float32; others stay as they are, mapped
KINDS: dict[str, type] = {  # of the facts that every graph has
    "num_nodes": int,
    "num_edges": int,
    "symmetric": bool,
    "arrays": dict,
    "edge_digest": list,
    "notes": list,
    "vocabulary": dict,
}
TYPES = {  # of arrays
    "in_ptr": ("<i8",),
    "in_col": ("<i4", "<i8"),
    "out_ptr": ("<i8",),
    "out_col": ("<i4", "<i8"),
    "edge_type": ("<i4",),
    "edge_weight": ("<f4",),
    "x": ("<f4", "<f2", "|i1"),
    "x_scale": ("<f4",),
    "x_ptr": ("<i8",),
    "x_col": ("<i4",),
    "x_value": ("<f4",),
}


@dataclass(frozen=True, eq=False)
class StoredGraph:
    """A graph on the disk, its header read and its files found in place; nothing else is read yet.

    Attributes:
        folder: where it lies.
        facts: what `graph.json` holds: `num_nodes`, `num_edges`, `symmetric`, `arrays`, names and choices.
    """

    folder: Path
    facts: Mapping[str, Any]

    @property
    def num_nodes(self) -> int:
        return int(self.facts["num_nodes"])

    @property
    def num_edges(self) -> int:
        return int(self.facts["num_edges"])

    @property
    def symmetric(self) -> bool:
        return bool(self.facts["symmetric"])

    def array(self, name: str) -> np.ndarray:
        """An array mapped into memory, which reads as it is used; writing to it changes memory, not the file.

        Raises:
            ValueError: when there is none of this name.
        """
        if name not in self.facts["arrays"]:
            raise ValueError(
                f"An array of {self.folder} must be one of {', '.join(self.facts['arrays'])}. Got {name!r}."
            )
        return map_array(self.folder / f"{name}.npy")

    def get(self, name: str) -> np.ndarray | None:
        """An array, or None where there is none of this name."""
        return self.array(name) if name in self.facts["arrays"] else None


def is_stored(folder: Path) -> bool:
    """Whether a folder holds a whole graph."""
    return (folder / INDEX).is_file()


def open_stored(folder: str | Path) -> StoredGraph:
    """The graph in a folder, its header and the sizes of its files checked.

    Raises:
        ValueError: when `graph.json` or a file is missing, was changed, or does not fit the others.
    """
    folder = Path(folder)
    if not is_stored(folder):
        raise ValueError(f"{folder} must hold {INDEX}, which `gpnn data convert` writes last. It does not.")
    facts = unseal(read_json(folder / INDEX), folder / INDEX)
    if (facts.get("format"), facts.get("version")) != (FORMAT, VERSION):
        found = f"{shorten(facts.get('format'))}, version {shorten(facts.get('version'))}"
        raise ValueError(f"{folder / INDEX} must be of the format {FORMAT!r}, version {VERSION}. Got {found}.")
    wrong = _first_wrong(facts)
    if wrong is not None:
        raise ValueError(f"{folder / INDEX} must hold a graph. Got another {shorten(wrong)}.")
    for name, array in facts["arrays"].items():
        _check_header(folder / f"{name}.npy", array)
    return StoredGraph(folder, facts)


def _first_wrong(facts: Mapping[str, Any]) -> Any:
    """What of the facts is of another kind than was written; None where nothing is."""
    for name, kind in KINDS.items():
        if type(facts.get(name)) is not kind:
            return name
    if facts["num_nodes"] < 1 or facts["num_edges"] < 0:
        return "number of nodes or edges"
    if len(facts["edge_digest"]) != 2 or not all(type(part) is int for part in facts["edge_digest"]):
        return "edge_digest"
    for name, array in facts["arrays"].items():
        if not name.isidentifier() or not isinstance(array, dict) or not {"dtype", "shape", "digests"} <= set(array):
            return name
        if not isinstance(array["digests"], list) or not all(isinstance(block, str) for block in array["digests"]):
            return f"digests of {name}"
    return _wrong_array(facts) or _wrong_text(facts)


def _wrong_array(facts: Mapping[str, Any]) -> str | None:
    """An array of another type or shape than the others ask for, or one that is missing."""
    arrays, nodes, edges, width = facts["arrays"], facts["num_nodes"], facts["num_edges"], facts.get("num_features")
    needed = ["in_ptr", "in_col"] if facts["symmetric"] else ["in_ptr", "in_col", "out_ptr", "out_col"]
    needed += ["x_col", "x_value"] if "x_ptr" in arrays else []
    needed += ["x_scale"] if "x" in arrays and arrays["x"]["dtype"] == "|i1" else []
    shapes = {"in_ptr": [nodes + 1], "in_col": [edges], "out_ptr": [nodes + 1], "out_col": [edges]}
    shapes |= {"edge_type": [edges], "edge_weight": [edges], "x": [nodes, width], "x_scale": [width]}
    shapes |= {"x_ptr": [nodes + 1], "x_value": arrays.get("x_col", {}).get("shape")}
    for name, array in arrays.items():
        if array["dtype"] not in TYPES.get(name, (array["dtype"],)) or array["shape"] != shapes.get(
            name, array["shape"]
        ):
            return name
    return next((name for name in needed if name not in arrays), None)


def _wrong_text(facts: Mapping[str, Any]) -> str | None:
    """Notes that are no texts, or names that are not as many as what they name."""
    if not all(isinstance(note, str) for note in facts["notes"]):
        return "notes"
    width, types = facts.get("num_features", -1), facts.get("num_edge_types", -1)
    if not all(type(count) is int and count >= 0 for count in (width, types)):
        return "number of features or edge types"
    counted = {"feature_names": (width,), "edge_type_names": (types, types - 1)}  # without edges no type has a name
    for name, counts in counted.items():
        names = facts.get(name)
        if names is None:
            continue
        if not isinstance(names, list) or len(names) not in counts or not all(isinstance(n, str | int) for n in names):
            return name
    return None


def _check_header(path: Path, array: Mapping[str, Any]) -> None:
    if not path.is_file():
        raise ValueError(f"{path.parent} must hold {path.name}. It does not.")
    header = read_header(path)
    if [header.dtype.str, list(header.shape)] != [array["dtype"], array["shape"]]:
        wanted, found = (f"{dtype} {shape}" for dtype, shape in ((array["dtype"], array["shape"]), header[:2]))
        raise ValueError(f"{path} must be as it was written, {wanted}. Got {found}.")


def check_stored(stored: StoredGraph) -> dict[str, str]:
    """The state of each file, "ok" or "corrupt", by its digests computed anew."""
    states = {INDEX: "ok"}
    for name, array in stored.facts["arrays"].items():
        states[f"{name}.npy"] = "ok" if digest_blocks(stored.folder / f"{name}.npy") == array["digests"] else "corrupt"
    return states


def describe_array(path: Path) -> dict[str, Any]:
    """What `graph.json` keeps of an array: type, shape and the digests of its blocks."""
    header = read_header(path)
    return {"dtype": header.dtype.str, "shape": list(header.shape), "digests": digest_blocks(path)}


def write_index(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write `graph.json`, which makes the graph whole."""
    write_text(folder / INDEX, json.dumps(seal({"format": FORMAT, "version": VERSION, **facts}), indent=1) + "\n")


def load_stored(folder: str | Path, vocabulary: Vocabulary | None = None, *, check: bool = True) -> Data:
    """The graph, features, labels and masks of a folder that `gpnn data convert` wrote, mapped into memory.

    Instead of `edge_index` the result has `graph`, a :class:`gpnn.Graph` in CSR form: what takes a `Data` takes it.

    Args:
        folder: the folder.
        vocabulary: unused: columns, classes and edge types have the meaning that they were converted with.
        check: whether every file is read once and compared with its digests, by threads beside the rest.

    Raises:
        ValueError: when the folder does not hold a whole graph, or a file of it was changed.
    """
    stored = open_stored(folder)
    with BlockCheck() as blocks:
        if check:
            for name, array in stored.facts["arrays"].items():
                path = stored.folder / f"{name}.npy"
                blocks.start(path, array["digests"], 0, path.stat().st_size)
        return _mapped_data(stored)


def _mapped_data(stored: StoredGraph) -> Data:
    """What :func:`load_stored` returns."""
    from torch_geometric.data import Data

    facts = stored.facts
    data = Data(num_nodes=stored.num_nodes, graph=stored_rows(stored), notes=list(facts["notes"]))
    for name in ("y", *MASKS):
        if (values := _mapped(stored, name)) is not None:
            data[name] = values
    if (names := stored_names(stored)) is not None:
        data.node_name = names
    for name in ("task", "num_classes", "class_names", "edge_type_names", "feature_names"):
        if facts.get(name) is not None:
            data[name] = facts[name]
    data.vocabulary = Vocabulary.from_mapping(facts["vocabulary"])
    if (scale := _mapped(stored, "x_scale")) is not None:
        data.x_scale = scale
    data = _checked(data, _features(stored))
    if scale is not None and data.x.numel() <= WIDENED:
        data.x = float_features(data)
        del data.x_scale
    return data


def _checked(data: Data, x: Tensor | None) -> Data:
    """The data with labels and masks checked, and features, which were when they were written: they may be large."""
    data = check_columns(data)
    if x is not None:
        data.x = x
    return data


def stored_rows(stored: StoredGraph) -> Graph:
    """The structure of a graph on the disk, over its maps."""
    out = None if stored.symmetric else (_mapped(stored, "out_ptr"), _mapped(stored, "out_col"))
    types = _mapped(stored, "edge_type")
    if types is not None:
        check_ids("`edge_type` must hold types", types, stored.facts["num_edge_types"])
    return Graph.from_csr(
        _mapped(stored, "in_ptr"),
        _mapped(stored, "in_col"),
        symmetric=stored.symmetric,
        out=out,
        edge_type=types,
        edge_weight=_mapped(stored, "edge_weight"),
        known_digest=EdgeDigest(*stored.facts["edge_digest"]),
    )


def stored_names(stored: StoredGraph) -> np.ndarray | None:
    """The id of each node, `[N]`, int64 or text; None where they are the numbers of the rows."""
    if not {"ids", "id_ptr"} & set(stored.facts["arrays"]):
        return None
    names = read_ids(stored.folder, stored.num_nodes)
    return None if names is None else names.to_numpy(zero_copy_only=False)


def read_ids(folder: Path, num_nodes: int) -> pyarrow.Array | None:
    """The ids in `ids.npy`, or `id_ptr.npy` and `id_text.npy`, `[N]`; None where there are no such files.

    Raises:
        ValueError: when they are not one id for each node.
    """
    name = next((each for each in ("ids", "id_ptr") if (folder / f"{each}.npy").is_file()), None)
    if name is None:
        return None
    import pyarrow

    values, length = map_array(folder / f"{name}.npy"), num_nodes + (name == "id_ptr")
    if values.dtype != np.int64 or values.shape != (length,):
        found = f"{values.dtype} {list(values.shape)}"
        raise ValueError(f"{folder / name}.npy must hold int64 [{length}]. Got {found}.")
    if name == "ids":
        return pyarrow.array(values)
    buffers = [None, pyarrow.py_buffer(values), pyarrow.py_buffer(map_array(folder / "id_text.npy"))]
    with undamaged(str(folder / "id_ptr.npy"), "point into id_text.npy", (pyarrow.ArrowInvalid,)):
        text = pyarrow.Array.from_buffers(pyarrow.large_string(), num_nodes, buffers)
        text.validate(full=True)  # offsets outside the text would be read wherever they point
    return text


def _features(stored: StoredGraph) -> Tensor | None:
    if (ptr := stored.get("x_ptr")) is not None:
        columns, width = stored.array("x_col"), stored.facts["num_features"]
        claim = "`x_col` must hold columns"
        check_rows(torch.from_numpy(ptr), torch.from_numpy(columns), width, "entries of `x`", claim)
        return csr_tensor(ptr, columns, stored.array("x_value"), (stored.num_nodes, width))
    return _mapped(stored, "x")


def _mapped(stored: StoredGraph, name: str) -> Any:
    values = stored.get(name)
    return None if values is None else torch.from_numpy(values)
