"""From tables to PyG `Data`: ids matched, features encoded, labels numbered, a split read or drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from gpnn.data.tables.choices import Choices
from gpnn.data.tables.matrix import Matrix
from gpnn.data.tables.node_features import add_features
from gpnn.data.tables.node_labels import add_labels
from gpnn.data.tables.table import Table, places
from gpnn.data.tables.vocabulary import Vocabulary
from gpnn.graph import Graph

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


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
    edges.require(("source", "target", *(("type",) if typed else ())), ("type", "weight"))
    nodes = _named_by(edges) if nodes is None else nodes
    nodes.require(("id",))
    names = nodes.names("id")
    if not len(names):
        raise ValueError(f"{nodes.file} must hold at least one node. Got none.")
    data = Data(num_nodes=len(names), node_name=names.to_numpy(zero_copy_only=False), remarks=[])
    _add_edges(data, edges, names, nodes.file, choices)
    columns = add_features(data, nodes, names, features, choices)
    add_labels(data, nodes, names, labels, choices)
    classes, types = (data.get(name) for name in ("class_names", "edge_type_names"))
    data.vocabulary = Vocabulary(columns, *(None if each is None else tuple(each) for each in (classes, types)))
    return data


def _named_by(edges: Table) -> Table:
    """The nodes that the edges name, in order."""
    import pyarrow
    from pyarrow import compute

    ends = [edges.names_of(end) for end in ("source", "target")]
    if ends[0].type != ends[1].type:
        ends = [end.cast(pyarrow.large_string()) for end in ends]
    distinct = pyarrow.chunked_array(ends).unique()
    return Table(edges.file, {"id": distinct.take(compute.array_sort_indices(distinct))}, edges.place)


def _add_edges(data: Data, edges: Table, names: pyarrow.Array, where: str, choices: Choices) -> None:
    src, dst = (edges.positions(end, names, where) for end in ("source", "target"))
    edge_type = weight = None
    if "type" in edges.columns:
        types, data.edge_type_names = _edge_types(edges, choices.vocabulary)
        edge_type = torch.from_numpy(types)
    if "weight" in edges.columns:
        weight = torch.from_numpy(edges.numbers("weight")).float()
        if not weight.isfinite().all():
            edges.refuse("weight", int((~weight.isfinite()).nonzero()[0]), "must be a finite number of 32 bits")
    graph = Graph(torch.from_numpy(src), torch.from_numpy(dst), data.num_nodes, edge_type, weight)
    graph = graph.to_undirected() if choices.undirected else graph
    data.edge_index = torch.stack([graph.src, graph.dst])
    if graph.edge_type is not None:
        data.edge_type = graph.edge_type
    if graph.edge_weight is not None:
        data.edge_weight = graph.edge_weight


def _edge_types(edges: Table, vocabulary: Vocabulary | None) -> tuple[np.ndarray, list[str | int]]:
    """The number of each edge's type, `[E]`, and the types; those of the vocabulary where there is one."""
    types, found = edges.numbered("type")
    if len(types) and types.min() < 0:
        edges.refuse("type", int(types.argmin()), "must not be empty")
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
