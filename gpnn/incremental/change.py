"""Change: nodes and edges that come, change and go at one time, and its reading from tables, frames and arrays.

Tables are read with the meaning of what a model was trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from gpnn.data.arrays import read_frame, to_features
from gpnn.data.tables import in_folder, read_edges, read_matrix, read_part
from gpnn.data.tables.assemble import add_labels, edge_types, prepare_edges, prepare_nodes
from gpnn.data.tables.column import as_text, named, plain_column
from gpnn.data.tables.matrix import Matrix
from gpnn.data.tables.node_features import add_features
from gpnn.data.tables.table import Table, name_columns
from gpnn.data.tables.vocabulary import Choices
from gpnn.storage.read import shorten

if TYPE_CHECKING:
    from torch_geometric.data import Data

FILES = ("nodes", "edges", "features", "removed_nodes", "removed_edges")
NODE_TABLES = ("nodes", "removed_nodes")


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges by the ids of their ends.

    Attributes:
        source, target: ids, `[e]`.
        edge_type: the number of each edge's type, `[e]`, or None.
        weight: the weight of each, `[e]`, or None.
    """

    source: Sequence[str] = ()
    target: Sequence[str] = ()
    edge_type: np.ndarray | None = None
    weight: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Change:
    """What changes in a graph at one time: first nodes and edges go, then nodes come or get other features, then edges.

    Attributes:
        nodes: ids of nodes that are new or have new features, distinct.
        x: their features, dense or sparse, `[n, F]`, or None where the graph has none.
        edges: new edges.
        removed_nodes: ids of nodes that go, with all their edges.
        removed_edges: edges that go: all from a source to a target, or those of a type where types are given.
    """

    nodes: Sequence[str] = ()
    x: Tensor | None = None
    edges: EdgeList = field(default_factory=EdgeList)
    removed_nodes: Sequence[str] = ()
    removed_edges: EdgeList = field(default_factory=EdgeList)


class ReadChange(NamedTuple):
    """A change and the labels that came with it.

    Attributes:
        change: by the user's ids.
        data: its nodes, with labels where the table had them; None where no nodes were given.
    """

    change: Change
    data: Data | None


def read_change_folder(folder: Path, choices: Choices) -> ReadChange:
    """The change that a folder of tables describes.

    `nodes` and `features` hold nodes that are new or have new features, `edges` new edges, as in
    :func:`gpnn.data.tables.tables`; `removed_nodes` has a column `id`, `removed_edges` the columns `source` and
    `target`, and may have `type`.

    Raises:
        ValueError: when the folder holds none of these, or a table cannot be read.
    """
    if not folder.is_dir():
        raise ValueError(f"`--update` must be a folder with tables of what changed. Got {str(folder)!r}.")
    paths = {part: in_folder(folder, part) for part in FILES[:3]}
    paths |= {f"removed_{part}": in_folder(folder, part, f"removed_{part}") for part in ("nodes", "edges")}
    if not any(paths.values()):
        raise ValueError(f"{folder} must hold one of the tables {', '.join(FILES)}. Got none.")
    found: dict[str, Any] = {name: read_part(paths[name][0], "nodes") for name in NODE_TABLES if paths[name]}
    if paths["edges"]:
        found["edges"] = read_edges(paths["edges"], choices)
    for path in paths["removed_edges"]:  # whose name is no edge type: without a column of it all types go
        found["removed_edges"] = name_columns(read_part(path, "edges"), choices.edge_names, choices.ignore)
    if paths["features"]:
        found["features"] = read_matrix(paths["features"][0], choices)
    return change_from_tables(found, choices)


def change_from_tables(tables: Mapping[str, Any], choices: Choices) -> ReadChange:
    """The change that tables describe, by the names of `FILES`; those that are missing are empty.

    Raises:
        ValueError: in one sentence that names the table, the row, the column and the value.
    """
    tables = dict(tables)
    for name in NODE_TABLES:
        if name in tables:
            names = choices.node_names if name == "nodes" else {"id": choices.id}
            tables[name] = name_columns(tables[name], names, choices.ignore)
            tables[name].require(("id",))
    nodes, gone, data = tables.get("nodes"), tables.get("removed_nodes"), None
    if nodes is not None:
        data = _nodes(nodes, tables.get("features"), choices)
    elif "features" in tables:
        raise ValueError("Features of nodes must come with a table of these nodes. Got features alone.")
    change = Change(
        nodes=[] if nodes is None else _texts(nodes.names("id")),
        x=None if data is None else data.get("x"),
        edges=_edges(tables.get("edges"), choices),
        removed_nodes=[] if gone is None else _texts(gone.names("id")),
        removed_edges=_edges(tables.get("removed_edges"), choices),
    )
    return ReadChange(change, data)


def read_change(
    nodes: Any,
    edges: Any,
    removed_nodes: Any,
    removed_edges: Any,
    *,
    choices: Choices,
    ids: Sequence[Any] | None = None,
    next_id: int | None = None,
) -> ReadChange:
    """The change that frames or arrays describe; None is empty.

    Args:
        nodes: a frame with ids and the columns that were trained on, or features `[n, F]`.
        edges: a frame with source and target, or their ids, `[2, e]`.
        removed_nodes: ids, `[n]`.
        removed_edges: as `edges`.
        choices: how columns are understood, with the vocabulary of what was trained on.
        ids: of the rows of features that are an array; None: the next numbers.
        next_id: the first number that is not an id yet; None: nodes have ids of their own.

    Raises:
        ValueError: when one cannot be read.
    """
    tables: dict[str, Any] = {}
    for name, value in (("edges", edges), ("removed_edges", removed_edges)):
        if value is not None:
            is_array = _is_array(value)
            tables[name] = _array_edges(name, value, choices) if is_array else read_frame(name, value, choices.ignore)
    if removed_nodes is not None:
        tables["removed_nodes"] = _column_table("removed_nodes", {choices.id: removed_nodes})
    if nodes is None or not _is_array(nodes):
        if nodes is not None:
            tables["nodes"] = read_frame("nodes", nodes, choices.ignore)
        return change_from_tables(tables, choices)
    return _with_features(change_from_tables(tables, choices).change, nodes, ids, next_id)


def _with_features(change: Change, features: Any, ids: Sequence[Any] | None, next_id: int | None) -> ReadChange:
    """The change with nodes that have these features."""
    from torch_geometric.data import Data

    x = to_features(features)
    if ids is None and next_id is None:
        raise ValueError("`ids` must name the rows of `nodes`, since the graph's nodes have ids. Got none.")
    next_id = next_id or 0
    names = list(range(next_id, next_id + x.shape[0])) if ids is None else list(ids)
    if len(names) != x.shape[0]:
        raise ValueError(f"`ids` must name each of the {x.shape[0]} rows of `nodes`. Got {len(names)}.")
    data = Data(x=x, num_nodes=x.shape[0])
    known = _column_table("ids", {"id": names}) if names else None
    return ReadChange(replace(change, nodes=[] if known is None else _texts(known.names("id")), x=data.x), data)


def _nodes(nodes: Table, features: Matrix | None, choices: Choices) -> Data:
    """Features and labels of the nodes of a table."""
    from torch_geometric.data import Data

    nodes = prepare_nodes(nodes, choices)
    names = nodes.names("id")
    data = Data(num_nodes=len(names), node_name=names.to_numpy(zero_copy_only=False), notes=[])
    if len(names):
        add_features(data, nodes, names, features, choices)
        add_labels(data, nodes, names, None, choices)
    return data


def _edges(edges: Table | None, choices: Choices) -> EdgeList:
    if edges is None:
        return EdgeList()
    edges = prepare_edges(edges, choices)
    weight = edges.weights() if "weight" in edges.columns else None
    types = _types(edges, choices) if "type" in edges.columns else None
    return EdgeList(_texts(named(edges.columns["source"])), _texts(named(edges.columns["target"])), types, weight)


def _types(edges: Table, choices: Choices) -> np.ndarray:
    """The number of each edge's type; of a graph that came from no tables types are numbers."""
    if choices.vocabulary is None:
        return edges.numbers("type").astype(np.int64)
    if choices.vocabulary.edge_types is None:
        raise ValueError(f"{edges.file} must have no types, as the graph's edges have. Got types.")
    return edge_types(edges, choices.vocabulary)[0]


def _texts(names: Any) -> list[str]:
    """Names as text, a number as it is printed."""
    return as_text(names).to_pylist()


def _is_array(value: Any) -> bool:
    if isinstance(value, list | tuple | np.ndarray | Tensor):
        return True
    return hasattr(value, "tocsr")


def _array_edges(name: str, ends: Any, choices: Choices) -> Table:
    pair = ends if isinstance(ends, list | tuple) else np.atleast_1d(ends)
    if len(pair) != 2 or np.ndim(pair[0]) != 1 or len(pair[0]) != len(pair[1]):
        raise ValueError(f"`{name}` must be sources and targets, [2, e], or a frame of them. Got {np.shape(pair)}.")
    return _column_table(name, {choices.source: pair[0], choices.target: pair[1]})


def _column_table(name: str, columns: Mapping[str, Any]) -> Table:
    """A table of ids."""
    import pyarrow

    values = {}
    for column, given in columns.items():
        try:
            made = pyarrow.array(list(given) if isinstance(given, list | tuple | set) else np.asarray(given))
            values[column] = named(plain_column(made))
        except (pyarrow.ArrowException, TypeError):
            what = shorten(given.tolist() if isinstance(given, np.ndarray) else given)
            raise ValueError(f"`{name}` must hold ids, all texts or all whole numbers. Got {what}.") from None
    return Table(name, values, lambda row: f"row {row}")
