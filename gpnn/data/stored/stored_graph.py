"""A graph on the disk: `graph.json` and the `.npy` files that it names; see docs/large-graphs.md for the format.

`graph.json` is written last and holds the digests of all files and of itself, so that a folder that has it is whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpnn.data.stored.npy_file import map_array, read_header
from gpnn.storage.atomic import write_text
from gpnn.storage.blocks import digest_blocks
from gpnn.storage.read import digest_json, read_json, seal, shorten, unseal

INDEX, FORMAT, VERSION = "graph.json", "gpnn graph", 1
KINDS: dict[str, type] = {  # of the facts that every graph has
    "num_nodes": int,
    "num_edges": int,
    "symmetric": bool,
    "arrays": dict,
    "edge_digest": list,
    "notes": list,
    "vocabulary": dict,
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

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays that there are."""
        return tuple(self.facts["arrays"])

    @property
    def digest(self) -> str:
        """The digest of all that it holds, as 64 hexadecimal digits."""
        return digest_json(self.facts["arrays"])

    def array(self, name: str) -> np.ndarray:
        """An array mapped into memory, which reads as it is used; writing to it changes memory, not the file.

        Raises:
            ValueError: when there is none of this name.
        """
        if name not in self.facts["arrays"]:
            raise ValueError(f"An array of {self.folder} must be one of {', '.join(self.names)}. Got {name!r}.")
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
    ptr = facts["arrays"].get("in_ptr")
    return None if ptr is not None and ptr["shape"] == [facts["num_nodes"] + 1] else "in_ptr"


def _check_header(path: Path, array: Mapping[str, Any]) -> None:
    if not path.is_file():
        raise ValueError(f"{path.parent} must hold {path.name}. It does not.")
    header = read_header(path)
    if [header.dtype.str, list(header.shape)] != [array["dtype"], array["shape"]]:
        wanted, found = (f"{dtype} {shape}" for dtype, shape in ((array["dtype"], array["shape"]), header[:2]))
        raise ValueError(f"{path} must be as it was written, {wanted}. Got {found}.")


def check_stored(stored: StoredGraph, progress: Callable[[str], None] = lambda name: None) -> dict[str, str]:
    """The state of each file, "ok" or "corrupt", by its digests computed anew.

    Args:
        stored: the graph.
        progress: called with the name of each file before it is read.
    """
    states = {INDEX: "ok"}
    for name, array in stored.facts["arrays"].items():
        progress(f"{name}.npy")
        states[f"{name}.npy"] = "ok" if digest_blocks(stored.folder / f"{name}.npy") == array["digests"] else "corrupt"
    return states


def describe_array(path: Path) -> dict[str, Any]:
    """What `graph.json` keeps of an array: type, shape and the digests of its blocks."""
    header = read_header(path)
    return {"dtype": header.dtype.str, "shape": list(header.shape), "digests": digest_blocks(path)}


def write_index(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write `graph.json`, which makes the graph whole."""
    write_text(folder / INDEX, json.dumps(seal({"format": FORMAT, "version": VERSION, **facts}), indent=1) + "\n")
