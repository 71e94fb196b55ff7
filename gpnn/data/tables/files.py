"""Which files a user's graph is in, and who reads each: one reader an ending."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpnn.data.tables.delimited import read_csv, read_tsv
from gpnn.data.tables.matrix import (
    Matrix,
    read_csv_matrix,
    read_npy_matrix,
    read_npz_matrix,
    read_parquet_matrix,
    read_tsv_matrix,
)
from gpnn.data.tables.metis import read_metis_edges
from gpnn.data.tables.npz import read_npz
from gpnn.data.tables.parquet import read_parquet
from gpnn.data.tables.table import Table

NODE_READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".npz": read_npz,
}
EDGE_READERS: dict[str, Callable[[Path], Table]] = {
    **NODE_READERS,
    ".graph": read_metis_edges,
    ".metis": read_metis_edges,
}
MATRIX_READERS: dict[str, Callable[[Path], Matrix]] = {
    ".npy": read_npy_matrix,
    ".npz": read_npz_matrix,
    ".parquet": read_parquet_matrix,
    ".csv": read_csv_matrix,
    ".tsv": read_tsv_matrix,
}
READERS: dict[str, dict[str, Callable[[Path], Any]]] = {
    "nodes": NODE_READERS,
    "edges": EDGE_READERS,
    "features": MATRIX_READERS,
    "labels": MATRIX_READERS,
}


@dataclass(frozen=True)
class TableFiles:
    """The files of one graph; a graph without `nodes` has the nodes that its edges name."""

    edges: Path
    nodes: Path | None = None
    features: Path | None = None
    labels: Path | None = None


def find_files(folder: Path, given: dict[str, str]) -> TableFiles:
    """The files of a graph: those given by name, or, where `edges` is not given, also those of the folder.

    Args:
        folder: where `nodes.*`, `edges.*`, `features.*` and `labels.*` stand, and what relative paths start from.
        given: paths of nodes, edges, features and labels; "" where not given.

    Raises:
        ValueError: when a file is missing, stands there twice, or has an ending that nobody reads.
    """
    found = {part: _check(folder / path, READERS[part]) for part, path in given.items() if path}
    if "edges" not in found:
        for part in READERS:
            if part not in found and (path := _only(folder, part)) is not None:
                found[part] = path
        for part in ("nodes", "edges"):
            if part not in found:
                choices = " or ".join(part + ending for ending in READERS[part])
                raise ValueError(f"{folder} must hold {choices}. Got {_listed(folder)}.")
    return TableFiles(**found)


def read_part(path: Path, part: str) -> Any:
    """What a file holds as nodes, edges, features or labels."""
    return READERS[part][path.suffix.lower()](path)


def _only(folder: Path, part: str) -> Path | None:
    """The one file `part.*` of the folder that can be read, or None."""
    paths = [folder / (part + ending) for ending in READERS[part] if (folder / (part + ending)).is_file()]
    if len(paths) > 1:
        raise ValueError(f"{folder} must hold one table of {part}. Got {', '.join(path.name for path in paths)}.")
    return paths[0] if paths else None


def _check(path: Path, endings: Iterable[str]) -> Path:
    if path.suffix.lower() not in endings:
        raise ValueError(f"A file must end in {', '.join(endings)} to be read here. Got {path.name!r}.")
    if not path.is_file():
        raise ValueError(f"The file {str(path)!r} must exist. It does not.")
    return path


def _listed(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return (", ".join(names[:8]) + (" and others" if len(names) > 8 else "")) or "an empty folder"
