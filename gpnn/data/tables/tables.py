"""A folder of the user's own tables: `nodes.*`, `edges.*` and optionally `features.*` and `labels.*`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.binary import read_npz, read_parquet
from gpnn.data.tables.delimited import read_delimited
from gpnn.data.tables.dialect import ending
from gpnn.data.tables.edge_files import PREFIX, file_types, join_edges
from gpnn.data.tables.headers import name_columns
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
MATRIX_READERS: dict[str, Callable[[Path, str], Matrix]] = {
    ".npy": read_npy_matrix,
    ".npz": read_npz_matrix,
    ".parquet": read_parquet_matrix,
    ".csv": read_delimited_matrix,
    ".tsv": read_delimited_matrix,
}
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
READERS: dict[str, dict[str, Callable[..., Any]]] = {
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
    id: str = "id",
    source: str = "source",
    target: str = "target",
    type: str = "type",
    weight: str = "weight",
    label: str = "label",
    edge_features: str = "",
    categorical: str = "",
    ignore: str = "",
    numbers: str = "standard",
    undirected: bool = False,
    task: str = "auto",
    seed: int = 0,
) -> Data:
    """The graph that a folder of tables describes.

    `nodes` (.csv, .tsv, .parquet, .npz; text also compressed, .csv.gz) has a column `id` (text or whole numbers,
    distinct), and may have `label` (a class or a number, empty where unknown), `split` (train, val, test or empty) and
    further columns, which are the features: numbers or dates (a gap counts as the mean and is marked by a feature of
    its own), categories, or text, whose words are hashed. `edges` (the same, or a METIS .graph) has `source` and
    `target`, and may have `type` and `weight`. Several files `edges_NAME.*`, or of a folder `edges`, are an edge type
    each, called by the name, unless they have a column `type` or are numbered. `features` (.npy, dense or sparse .npz,
    .parquet, .csv, .tsv) holds instead of further columns one row of features per node, by a column `id` or in the
    order of the nodes. Where a node may have several labels, `labels` holds instead of `label` zeros and ones, one row
    per node and one column per label; a row of -1 or NaN is unlabelled. Without `split`, 60 % of each class train, 20 %
    validate.

    The result has `node_name` (the ids), `vocabulary` (what columns, classes and edge types mean), `class_names`,
    `edge_type_names` and `feature_names` where the tables name them, and `notes` on what was decided while reading.

    Args:
        folder: the folder; relative paths start from it.
        vocabulary: of the tables that a model was trained on: columns, classes and edge types keep its meaning.
        nodes, edges, features, labels: files to read; where `edges` is given, only files given are read. `edges` may be
            a folder or a pattern of files.
        id, source, target, type, weight: what the tables call these columns; the names hold in any case.
        label: the column of the nodes that holds the class.
        edge_features: columns of the edges, separated by commas, for `edge_attr`, which `gpnn.nn.Scheduled` takes.
        categorical: columns, separated by commas, that are categories though they look like numbers.
        ignore: columns, separated by commas, of nodes or edges, that are left out.
        numbers: "standard" scales columns of numbers to mean 0 and deviation 1, "normal" to the normal deviates of
            their ranks; "raw" leaves them as they are.
        undirected: add the reverse of every edge that lacks it.
        task: what the label is: "classification", "regression" (a number), or "auto": a regression where all labels
            are numbers and one is not whole.
        seed: of the random split, where the tables have none.

    Raises:
        ValueError: in one sentence that names the file, the line, the column and the value.
    """
    choices = Choices(
        label, split_list(categorical), split_list(ignore), numbers, undirected, seed, vocabulary, task,
        id, source, target, type, weight, split_list(edge_features),
    )  # fmt: skip
    files = find_files(Path(folder), {"nodes": nodes, "edges": edges, "features": features, "labels": labels})
    return assemble(
        None if files.nodes is None else read_part(files.nodes, "nodes"),
        read_edges(files.edges, choices),
        choices,
        features=read_matrix(files.features, choices),
        labels=read_matrix(files.labels, choices),
    )


@dataclass(frozen=True)
class TableFiles:
    """The files of one graph; a graph without `nodes` has the nodes that its edges name."""

    edges: tuple[Path, ...]
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
    found: dict[str, Any] = {part: find_inputs(folder / path, part) for part, path in given.items() if path}
    if "edges" not in found:
        for part in READERS:
            found.setdefault(part, in_folder(folder, part))
        for part in ("nodes", "edges"):
            if not found[part]:
                choices = " or ".join(part + each for each in READERS[part])
                sheets = any(each.suffix.lower() in SPREADSHEETS for each in folder.iterdir())
                hint = " (save a spreadsheet as CSV)" if sheets else ""
                raise ValueError(f"{folder} must hold {choices}{hint}. Got {_listed(folder)}.")
    one = {part: paths[0] for part, paths in found.items() if paths and part != "edges"}
    return TableFiles(tuple(found["edges"]), **one)


def find_inputs(path: Path, part: str) -> list[Path]:
    """The files that a path, a folder or a pattern names, by name; of nodes, features and labels one.

    Args:
        path: what the user gave.
        part: "nodes", "edges", "features" or "labels".

    Raises:
        ValueError: when there is none, or one has an unknown ending.
    """
    found = match_files(path, READERS[part])
    if not found:
        raise ValueError(f"The file {str(path)!r} must exist. It does not.")
    for each in found:
        if ending(each) not in READERS[part]:
            raise ValueError(f"A file must end in {', '.join(READERS[part])} to be read here. Got {each.name!r}.")
    if len(found) > 1 and part != "edges":
        raise ValueError(f"The {part} must be one file. Got {', '.join(each.name for each in found[:8])}.")
    return found


def match_files(path: Path, endings: Collection[str]) -> list[Path]:
    """The file at a path, the files with these endings in a folder, or those that a pattern names; sorted."""
    if path.is_dir():
        return sorted(each for each in path.rglob("*") if ending(each) in endings and each.is_file())
    if path.exists() or "*" not in str(path):
        return [path] if path.is_file() else []
    folder = Path(*path.parts[: next(place for place, name in enumerate(path.parts) if "*" in name)])
    return sorted(folder.glob(str(path.relative_to(folder))))


def in_folder(folder: Path, part: str, name: str = "") -> list[Path]:
    """The one file `part.*` of the folder; of edges also the files `edges_*` or those of a folder `edges`.

    Args:
        folder: the folder.
        part: "nodes", "edges", "features" or "labels".
        name: of a file with such a table that is called otherwise; it is one.
    """
    every = [each for each in sorted(folder.iterdir()) if ending(each) in READERS[part] and each.is_file()]
    paths = [each for each in every if each.name.partition(".")[0] == (name or part)]
    if len(paths) > 1:
        raise ValueError(f"{folder} must hold one table of {part}. Got {', '.join(path.name for path in paths)}.")
    if paths or name or part != "edges":
        return paths
    named = [each for each in every if PREFIX.match(each.name)]
    inside = match_files(folder / part, READERS[part])
    if named and inside:
        raise ValueError(f"{folder} must hold edges either in files edges_* or in a folder edges. Got both.")
    return named or inside


def read_part(path: Path, part: str) -> Table:
    """The table of nodes or edges that a file holds."""
    return READERS[part][ending(path)](path)


def read_matrix(path: Path | None, choices: Choices) -> Matrix | None:
    """The features or labels that a file holds."""
    return None if path is None else MATRIX_READERS[ending(path)](path, choices.id)


def read_edges(paths: Sequence[Path], choices: Choices) -> Table:
    """The edges of one file, or of several together."""
    parts = [name_columns(read_part(path, "edges"), choices.edge_names) for path in paths]
    typed = choices.vocabulary is not None and choices.vocabulary.edge_types is not None
    return join_edges(parts, file_types(paths, 1 if typed else 2))


def _listed(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return (", ".join(names[:8]) + (" and others" if len(names) > 8 else "")) or "an empty folder"
