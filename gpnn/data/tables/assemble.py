"""From tables to PyG `Data`: ids matched, features encoded, classes numbered, a split read or drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from gpnn.data.labels import check_labels, check_names, find_fractions, is_missing, is_unlabelled, labelled_nodes
from gpnn.data.splits import Split, draw_split
from gpnn.data.tables.column import MISSING, as_text, distinct, named
from gpnn.data.tables.column_kinds import read_commas
from gpnn.data.tables.matrix import Matrix
from gpnn.data.tables.node_features import Columns, add_features, choose_columns, encode_columns, matrix_rows
from gpnn.data.tables.number_scale import set_number_scale
from gpnn.data.tables.table import Table, name_columns, places
from gpnn.data.tables.vocabulary import Choices, Vocabulary
from gpnn.graph import Graph
from gpnn.storage.read import shorten

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


PARTS = {"": -1, "train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}


def assemble(
    nodes: Table | None,
    edges: Table,
    choices: Choices,
    *,
    features: Matrix | None = None,
    labels: Matrix | None = None,
) -> Data:
    """The graph of a table of nodes (None: those that the edges name) and a table of edges.

    Raises:
        ValueError: in one sentence that names the file, the line, the column and the value.
    """
    from torch_geometric.data import Data

    typed = choices.vocabulary is not None and choices.vocabulary.edge_types is not None
    edges = prepare_edges(edges, choices)
    edges.require(("source", "target", *(("type",) if typed else ())))
    nodes = _named_by(edges) if nodes is None else prepare_nodes(nodes, choices)
    nodes.require(("id",))
    names = nodes.names("id")
    if not len(names):
        raise ValueError(f"{nodes.file} must hold at least one node. Got none.")
    data = Data(
        num_nodes=len(names), node_name=names.to_numpy(zero_copy_only=False), notes=[*nodes.notes, *edges.notes]
    )
    edge_columns = _add_edges(data, edges, names, nodes.file, choices)
    columns = add_features(data, nodes, names, features, choices)
    add_labels(data, nodes, names, labels, choices)
    if choices.numbers == "auto" and choices.vocabulary is None:
        columns = set_number_scale(data, nodes, columns)
    named = (data.get(name) for name in ("class_names", "edge_type_names"))
    classes, types = (None if each is None else tuple(each) for each in named)
    data.vocabulary = Vocabulary(columns, classes, types, edge_columns)
    return data


def prepare_nodes(nodes: Table, choices: Choices) -> Table:
    """The table of nodes with our names for its columns, without those to ignore, and points for decimal commas.

    Raises:
        ValueError: when a column that the user named is missing, or one has no use and is not to be ignored.
    """
    nodes = name_columns(nodes, choices.node_names, choices.ignore)
    if choices.label != "label" and choices.vocabulary is None:
        nodes.require((choices.label,))
    return read_commas(nodes, comma_columns(nodes, choices))


def comma_columns(nodes: Table, choices: Choices) -> list[str]:
    """The columns of the nodes whose values may be numbers with decimal commas."""
    others = ["id", "split", *choices.categorical]
    if choices.task == "classification":
        others.append(choices.label)
    return [name for name in nodes.columns if name not in others]


def prepare_edges(edges: Table, choices: Choices) -> Table:
    """Likewise of the edges, of whose columns only those that are used remain.

    Raises:
        ValueError: when there is a column that has no use and is not to be ignored.
    """
    edges = name_columns(edges, choices.edge_names, choices.ignore)
    edges.require(("source", "target", *choices.edge_columns), ("type", "weight"))
    numbers = [name for name in ("weight", *choices.edge_columns) if name in edges.columns]
    return read_commas(edges, [name for name in numbers if name not in choices.categorical])


def _named_by(edges: Table) -> Table:
    """The nodes that the edges name, in order."""
    ends = [named(edges.columns[end]) for end in ("source", "target")]
    return Table(edges.file, {"id": distinct(ends)}, edges.place)


def _add_edges(data: Data, edges: Table, names: pyarrow.Array, where: str, choices: Choices) -> Columns:
    """Set the edges of `data`, their types, weights and features; return the columns that the features are made of."""
    src, dst = (edges.positions(end, names, where) for end in ("source", "target"))
    edge_type = weight = None
    if "type" in edges.columns:
        types, data.edge_type_names = edge_types(edges, choices.vocabulary)
        edge_type = torch.from_numpy(types)
    if "weight" in edges.columns:
        weight = torch.from_numpy(edges.weights())
    graph = Graph(torch.from_numpy(src), torch.from_numpy(dst), data.num_nodes, edge_type, weight)
    known = None if choices.vocabulary is None else choices.vocabulary.edge_columns
    columns = choose_columns(edges, choices.edge_columns, choices, known, data.notes)
    if columns:
        attributes, notes = encode_columns(edges, columns)
        data.edge_attr, data.notes = attributes.to_dense(), [*data.notes, *notes]
        if graph.edge_weight is None:  # else PyG takes a single column for it
            graph = replace(graph, edge_weight=torch.ones(graph.num_edges))
    if choices.undirected:
        graph, origin = graph.with_reverses()
        data.undirected = True
        if columns:
            data.edge_attr = data.edge_attr[origin]
    data.update(graph.to_data())
    return columns


def edge_types(edges: Table, vocabulary: Vocabulary | None) -> tuple[np.ndarray, list[str | int]]:
    """The number of each edge's type, `[E]`, and the types; those of the vocabulary where there is one."""
    types, found = edges.types()
    if vocabulary is None:
        return types, found
    import pyarrow

    known = list(vocabulary.edge_types or ())
    place = places(pyarrow.array(found), pyarrow.array(known)) if known and found else np.full(len(found), -1)
    new = place[types] if len(types) else types
    if len(new) and new.min() < 0:
        listed = ", ".join(map(str, known)) or "none"
        edges.refuse("type", int(new.argmin()), f"must be an edge type that the model was trained on ({listed})")
    return new, known


def add_labels(data: Data, nodes: Table, names: pyarrow.Array, labels: Matrix | None, choices: Choices) -> None:
    """Set labels `y`, their names, and the masks of a split, read or drawn; nothing where the tables have no labels.

    Args:
        data: the graph; `notes` may grow.
        nodes: the table of the nodes.
        names: their ids.
        labels: zeros and ones for several labels per node, or None.
        choices: which column holds the class, and the seed of the draw.

    Raises:
        ValueError: when both places have labels, or a value cannot be one.
    """
    has_column = choices.label in nodes.columns
    if labels is not None and has_column:
        raise ValueError(
            f"Labels must be either in {labels.file} or in the column {choices.label} of {nodes.file}. Got both."
        )
    if labels is not None:
        values = matrix_rows(labels, names, nodes.file, data.notes, gaps=True).to_dense()
        if values.shape[1] < 2:
            raise ValueError(f"{labels.file} must have at least two columns, one per label. Got {values.shape[1]}.")
        data.y = check_labels(values, data.num_nodes)
        if labels.names is not None:
            data.class_names = labels.names
    elif has_column and _are_numbers(nodes, choices):
        data.y, data.task = torch.from_numpy(_numbers(nodes, choices.label)), "regression"
    elif has_column:
        y, data.class_names = _classes(nodes, choices, data.notes)
        data.y = torch.from_numpy(y)
        if data.class_names:
            data.num_classes = len(data.class_names)
    if data.get("y") is not None:
        _add_split(data, nodes, choices)


def _are_numbers(nodes: Table, choices: Choices) -> bool:
    """Whether the labels are numbers to predict: by the setting, or all of them numbers of which one is not whole."""
    if choices.task != "auto" or (choices.vocabulary is not None and choices.vocabulary.classes is not None):
        return choices.task == "regression"
    return bool(find_fractions(nodes.numbered(choices.label, _is_gap)[1]))


def _numbers(nodes: Table, column: str) -> np.ndarray:
    """The numbers of a column, float64 `[N]`, NaN where they are missing.

    Raises:
        ValueError: for a value that is not a finite number, with its line.
    """
    place, found = nodes.numbered(column, _is_gap)
    values = np.full(len(found) + 1, np.nan)
    for number, name in enumerate(found):
        try:
            values[number] = float(name)
        except ValueError:
            values[number] = np.inf
    numbers = values[place]
    if np.isinf(numbers).any():
        nodes.refuse(column, int(np.isinf(numbers).argmax()), "must be a finite number, or empty where unknown")
    return numbers


def _is_gap(name: str | int) -> bool:
    return is_missing(name) or _means_none(name)


def _classes(nodes: Table, choices: Choices, notes: list[str]) -> tuple[np.ndarray, list[str | int]]:
    """The class of each node, -1 where it is unknown, `[N]`, and the classes."""
    import pyarrow

    y, found = nodes.numbered(choices.label, is_unlabelled)
    if choices.vocabulary is None or choices.vocabulary.classes is None:
        check_names(found, f"{nodes.file}, column {choices.label[:80]}:")
        notes += [_doubt(name, int((y == place).sum())) for place, name in enumerate(found) if _means_none(name)]
        notes += _joined(found)
        return y, found
    known = list(choices.vocabulary.classes)
    place = places(pyarrow.array(found), pyarrow.array(known)) if found else np.empty(0, np.int64)
    unseen = [name for name, where in zip(found, place) if where < 0]
    if unseen:
        notes.append(f"nodes of classes that the model does not know count as unlabelled: {unseen[:5]}")
    return np.append(place, -1)[y], known


def _means_none(name: str | int) -> bool:
    return str(name).lower() in MISSING


def _doubt(name: str | int, count: int) -> str:
    return f"{name!r} counts as a class, of {count} nodes: leave their labels empty if it means unknown"


def _joined(found: list[str | int]) -> list[str]:
    """A note where classes are put together from fewer words."""
    for mark in ";|":
        words = [str(name).split(mark) for name in found]
        joined = [name for name, each in zip(found, words) if len(each) > 1]
        if len(joined) > 1 and len({word.strip() for each in words for word in each}) < len(found):
            several = "a file `labels` with a column of zeros and ones for each lets a node have several"
            return [f"{len(joined)} classes join others with {mark!r}, such as {shorten(joined[0])}; {several}"]
    return []


def _add_split(data: Data, nodes: Table, choices: Choices) -> None:
    known = labelled_nodes(data.y)
    part = _parts(nodes) if "split" in nodes.columns else None
    if part is None or (part < 0).all():
        note = draw_split(data, choices.seed) if known.any() else "no node is labelled"
        if choices.vocabulary is None:  # a trained model does not use it
            data.notes.append(note)
        return
    unlabelled = (part >= 0) & (part != PARTS["test"]) & ~known.numpy()
    if choices.vocabulary is not None:  # these are predicted, whatever their part was
        part[unlabelled] = -1
        if not (part == PARTS["train"]).any():
            return
    elif unlabelled.any():
        nodes.refuse("split", int(unlabelled.argmax()), "must be test or empty where the label is unknown")
    for name, mask in Split(*(torch.from_numpy(part == number) for number in range(3)))._asdict().items():
        data[name] = mask


def _parts(nodes: Table) -> np.ndarray:
    """The part of the split that each node is in, -1 for none, `[N]`."""
    from pyarrow import compute

    values = compute.utf8_lower(as_text(nodes.columns["split"]))
    words = values.unique()
    part = np.array([PARTS.get(word, -2) for word in words.to_pylist()])[places(values, words)]
    if (part == -2).any():
        nodes.refuse("split", int((part == -2).argmax()), "must be train, val, test or empty")
    return part
