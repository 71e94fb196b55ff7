"""A folder of the user's own tables: `nodes.*`, `edges.*` and optionally `features.*` and `labels.*`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.binary import read_npz, read_parquet
from gpnn.data.tables.delimited import read_delimited
from gpnn.data.tables.matrix import (
    Matrix,
    read_delimited_matrix,
    read_npy_matrix,
    read_npz_matrix,
    read_parquet_matrix,
)
from gpnn.data.tables.metis import read_metis_edges
from gpnn.data.tables.table import Table
from gpnn.data.tables.vocabulary import Choices, Vocabulary, split_list

if TYPE_CHECKING:
    from torch_geometric.data import Data


NODE_READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
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
    ".csv": read_delimited_matrix,
    ".tsv": read_delimited_matrix,
}
READERS: dict[str, dict[str, Callable[[Path], Any]]] = {
    "nodes": NODE_READERS,
    "edges": EDGE_READERS,
    "features": MATRIX_READERS,
    "labels": MATRIX_READERS,
}


def tables(
    folder: str | Path,
    vocabulary: Vocabulary | None = None,
    *,
    nodes: str = "",
    edges: str = "",
    features: str = "",
    labels: str = "",
    label: str = "label",
    categorical: str = "",
    ignore: str = "",
    numbers: str = "standard",
    undirected: bool = False,
    task: str = "auto",
    seed: int = 0,
) -> Data:
    """The graph that a folder of tables describes.

    `nodes` (.csv, .tsv, .parquet, .npz) has a column `id` (text or whole numbers, distinct), and may have `label` (a
    class or a number, empty where unknown), `split` (train, val, test or empty) and further columns, which are the
    features: numbers or dates (a gap counts as the mean and is marked by a feature of its own), categories, or text,
    whose words are hashed. `edges` (the same, or a METIS .graph) has `source` and `target`, and may have
    `type` and `weight`. `features` (.npy, dense or sparse .npz, .parquet, .csv, .tsv) holds instead of further columns
    one row of features per node, by a column `id` or in the order of the nodes. Where a node may have several labels,
    `labels` holds instead of `label` zeros and ones, one row per node and one column per label; a row of -1 or NaN is
    unlabelled. Without `split`, 60 % of each class train, 20 % validate.

    The result has `node_name` (the ids), `vocabulary` (what columns, classes and edge types mean), `class_names`,
    `edge_type_names` and `feature_names` where the tables name them, and `notes` on what was decided while reading.

    Args:
        folder: the folder; relative paths start from it.
        vocabulary: of the tables that a model was trained on: columns, classes and edge types keep its meaning.
        nodes, edges, features, labels: files to read; where `edges` is given, only files given are read.
        label: the column of the nodes that holds the class.
        categorical: columns, separated by commas, that are categories though they look like numbers.
        ignore: columns, separated by commas, that are not features.
        numbers: "standard" scales columns of numbers to mean 0 and deviation 1, "normal" to the normal deviates of
            their ranks; "raw" leaves them as they are.
        undirected: add the reverse of every edge that lacks it.
        task: what the label is: "classification", "regression" (a number), or "auto": a regression where all labels
            are numbers and one is not whole.
        seed: of the random split, where the tables have none.

    Raises:
        ValueError: in one sentence that names the file, the line, the column and the value.
    """
    choices = Choices(label, split_list(categorical), split_list(ignore), numbers, undirected, seed, vocabulary, task)
    files = find_files(Path(folder), {"nodes": nodes, "edges": edges, "features": features, "labels": labels})
    return assemble(
        None if files.nodes is None else read_part(files.nodes, "nodes"),
        read_part(files.edges, "edges"),
        choices,
        features=None if files.features is None else read_part(files.features, "features"),
        labels=None if files.labels is None else read_part(files.labels, "labels"),
    )


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
        ValueError: when a file is missing, is there twice, or has an unknown ending.
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
