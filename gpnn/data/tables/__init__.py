"""A folder of the user's own tables: `nodes.*`, `edges.*` and optionally `features.*` and `labels.*`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.binary import read_npz, read_parquet
from gpnn.data.tables.column import alike
from gpnn.data.tables.delimited import read_delimited
from gpnn.data.tables.dialect import ending
from gpnn.data.tables.matrix import (
    Matrix,
    read_delimited_matrix,
    read_npy_matrix,
    read_npz_matrix,
    read_parquet_matrix,
)
from gpnn.data.tables.metis import read_metis_edges
from gpnn.data.tables.table import Table, name_columns
from gpnn.data.tables.vocabulary import COLUMNS, Choices, with_choices

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
MATRIX_READERS: dict[str, Callable[..., Matrix]] = {
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
PART = re.compile(r"(part|chunk|shard|split|batch)?[-_. ]?\d+([-_. ].*)?", re.IGNORECASE)
PREFIX = re.compile(r"edges?[-_. ]+", re.IGNORECASE)


@with_choices(COLUMNS)
def tables(
    folder: str | Path, choices: Choices, *, nodes: str = "", edges: str = "", features: str = "", labels: str = ""
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
    per node and one column per label; a row of -1, NaN or empty cells is unlabelled, and so is a node without a row.
    Without `split`, 60 % of each class train, 20 % validate.

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
            their ranks, "auto": to these where they predict labels better; "raw" leaves them as they are.
        undirected: add the reverse of every edge that lacks it.
        task: what the label is: "classification", "regression" (a number), or "auto": a regression where all labels
            are numbers and one is not whole.
        seed: of the random split, where the tables have none.

    Raises:
        ValueError: in one sentence that names the file, the line, the column and the value.
    """
    files = find_files(Path(folder), {"nodes": nodes, "edges": edges, "features": features, "labels": labels})
    return assemble(
        None if files.nodes is None else read_part(files.nodes, "nodes"),
        read_edges(files.edges, choices),
        choices,
        features=read_matrix(files.features, choices),
        labels=read_matrix(files.labels, choices, gaps=True),
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
    for part, paths in found.items():
        if len(paths) > 1 and part != "edges":
            raise ValueError(f"The {part} must be one file. Got {', '.join(each.name for each in paths[:8])}.")
    one = {part: paths[0] for part, paths in found.items() if paths and part != "edges"}
    return TableFiles(tuple(found["edges"]), **one)


def find_inputs(path: Path, part: str, further: Sequence[str] = ()) -> list[Path]:
    """The files that a path, a folder or a pattern names, by name.

    Args:
        path: what the user gave.
        part: "nodes", "edges", "features" or "labels".
        further: endings that can be read beside those of `READERS`.

    Raises:
        ValueError: when there is none, or one has an unknown ending.
    """
    endings = (*READERS[part], *further)
    found = match_files(path, endings)
    if not found:
        raise ValueError(f"The {part} must be a file, a folder of files or a pattern. {str(path)!r} names none.")
    for each in found:
        if ending(each) not in endings:
            raise ValueError(f"A file of {part} must end in {', '.join(endings)}. Got {each.name!r}.")
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


def read_matrix(path: Path | None, choices: Choices, *, gaps: bool = False) -> Matrix | None:
    """The features or labels that a file holds; with `gaps` NaN where one is missing."""
    return None if path is None else MATRIX_READERS[ending(path)](path, choices.id, gaps=gaps)


def read_edges(paths: Sequence[Path], choices: Choices) -> Table:
    """The edges of one file, or of several together."""
    parts = [name_columns(read_part(path, "edges"), choices.edge_names, choices.ignore) for path in paths]
    typed = choices.vocabulary is not None and choices.vocabulary.edge_types is not None
    return join_edges(parts, file_types(paths, 1 if typed else 2))


def _listed(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return (", ".join(names[:8]) + (" and others" if len(names) > 8 else "")) or "an empty folder"


def file_types(paths: Sequence[Path], least: int = 2) -> list[str] | None:
    """The edge type that the name of each file is; None for fewer than `least`, and for numbered parts of one table.

    >>> file_types([Path("edges_follows.csv"), Path("edges_writes.csv.gz")])
    ['follows', 'writes']
    >>> file_types([Path("edges-0.csv"), Path("edges-1.csv")]) is None
    True
    """
    names = [PREFIX.sub("", path.name.partition(".")[0], count=1) for path in paths]
    if len(paths) < least or len(set(names)) < len(names) or any(PART.fullmatch(name) for name in names):
        return None
    return names


def join_edges(parts: Sequence[Table], types: Sequence[str] | None) -> Table:
    """The edges of several files as one table.

    Args:
        parts: the table of each file, by our names of its columns; without weights where others have them, they are 1.
        types: the edge type of each, for tables that have no column of it; or None.

    Raises:
        ValueError: when a file lacks a column that another has.
    """
    if types is not None and not any("type" in part.columns for part in parts):
        parts = [add_type(part, name) for part, name in zip(parts, types)]
        parts[0] = replace(parts[0], notes=(*types_note(types), *parts[0].notes))
    if any("weight" in part.columns for part in parts):
        parts = [part if "weight" in part.columns else _add_column(part, "weight", 1.0) for part in parts]
    every = dict.fromkeys(name for part in parts for name in part.columns)
    for part in parts:
        part.require(list(every))
    return join_tables(parts, "the edges")


def types_note(types: Sequence[str]) -> list[str]:
    """What to tell the user where files are edge types."""
    return [f"the {len(types)} files of edges are edge types: {', '.join(types[:12])}"] if types else []


def add_type(edges: Table, name: str) -> Table:
    """The edges of one type with a column of it."""
    return _add_column(edges, "type", name)


def join_tables(parts: Sequence[Table], file: str) -> Table:
    """Tables one after the other as one; a row's place is that of its part, with its file where there are several.

    Args:
        parts: tables with the columns of the first.
        file: what errors call the whole where it is of several files.
    """
    import pyarrow

    starts = np.cumsum([0, *(part.num_rows for part in parts)])
    several = len({part.file for part in parts}) > 1

    def place(row: int) -> str:
        number = int(np.searchsorted(starts, row, side="right")) - 1
        found = parts[number].place(row - int(starts[number]))
        return f"{parts[number].file}, {found}" if several else found

    columns = {name: pyarrow.concat_arrays(alike([part.columns[name] for part in parts])) for name in parts[0].columns}
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    commas = any(part.decimal_comma for part in parts)
    one = replace(parts[0], columns=columns, place=place, notes=notes, decimal_comma=commas)
    return replace(one, file=file) if several else one


def _add_column(table: Table, name: str, value: str | float) -> Table:
    import pyarrow

    kind = pyarrow.large_string() if isinstance(value, str) else pyarrow.float64()
    return replace(table, columns={**table.columns, name: pyarrow.repeat(pyarrow.scalar(value, kind), table.num_rows)})
