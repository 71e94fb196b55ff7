"""A graph in one file (METIS, GraphML, GEXF, a saved PyG `Data`), or a graph of networkx in memory.

Of a graph of networkx attributes of nodes and edges are columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

import numpy as np

from gpnn.check import import_extra
from gpnn.data.features import transform_data
from gpnn.data.labels import check_labels, labelled_nodes
from gpnn.data.pyg import read_pyg
from gpnn.data.splits import draw_split
from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.column import python_column
from gpnn.data.tables.metis import read_metis
from gpnn.data.tables.table import ARGUMENT, Table
from gpnn.data.tables.vocabulary import ATTRIBUTES, Choices, with_choices
from gpnn.storage.read import check_size, undamaged

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

EXPANSION = 40  # bytes of Python objects per byte of XML, roughly
EDGE_OPTIONS = ("type", "weight", "edge_features")
GEXF_NAMES = ("label", "viz", "start", "end", "pid", "networkx_key")  # what GEXF has for display, and networkx adds


@with_choices((*EDGE_OPTIONS, *ATTRIBUTES))
def graph_file(path: str | Path, choices: Choices) -> Data:
    """The graph that a file holds, by its ending; the options are those of :func:`gpnn.data.tables.tables`.

    What is a column there is an attribute of the nodes or edges here.

    Args:
        path: the file, whose ending is in `GRAPH_READERS`.
        vocabulary: of the graph that a model was trained on: columns, classes and edge types keep its meaning.

    Raises:
        ValueError: in one sentence that names the file and what is wrong.
    """
    path = Path(path)
    return GRAPH_READERS[path.suffix.lower()](path, choices)


def _metis(path: Path, choices: Choices) -> Data:
    import pyarrow

    edges, num_nodes = read_metis(path)
    numbers = pyarrow.array(np.arange(1, num_nodes + 1))
    return assemble(Table(path.name, {"id": numbers}, lambda row: f"node {row + 1}"), edges, choices)


def _xml(path: Path, choices: Choices) -> Data:
    read = read_graphml if path.suffix.lower() == ".graphml" else read_gexf
    return assemble(*read(path, choices.weight), choices)


def _pyg(path: Path, choices: Choices) -> Data:
    data = read_pyg(path, choices.task)
    if choices.task != "auto":
        data.task = choices.task
    if data.get("y") is not None and data.get("train_mask") is None:
        data.y = check_labels(data.y, data.num_nodes, choices.task)
        known = bool(labelled_nodes(data.y).any())
        data.notes = [draw_split(data, choices.seed) if known else "no node is labelled"]
    return transform_data(data, undirected=choices.undirected)


GRAPH_READERS: dict[str, Callable[[Path, Choices], Data]] = {
    ".graph": _metis,
    ".metis": _metis,
    ".graphml": _xml,
    ".gexf": _xml,
    ".pt": _pyg,
}


def read_graphml(path: Path, weight: str = "weight") -> tuple[Table, Table]:
    """The nodes and edges of a GraphML file, whose attributes are columns; an edge without `weight` has 1.

    Raises:
        ValueError: when it is not such a file.
    """
    graph = _read(path, "GraphML", lambda networkx: networkx.read_graphml(path))
    return node_table(path.name, graph), edge_table(path.name, graph, weight)


def read_gexf(path: Path, weight: str = "weight") -> tuple[Table, Table]:
    """The same of a GEXF file; `label` is a display name there, so the class is the attribute `class`."""
    graph = _read(path, "GEXF", lambda networkx: networkx.read_gexf(path))
    nodes = node_table(path.name, graph, drop=GEXF_NAMES)
    columns = {"label" if name == "class" else name: values for name, values in nodes.columns.items()}
    return Table(nodes.file, columns, nodes.place), edge_table(path.name, graph, weight, drop=GEXF_NAMES)


def _read(path: Path, name: str, read: Callable[[Any], networkx.Graph]) -> networkx.Graph:
    networkx = import_extra("networkx", "networkx", f"A {name} file")
    check_size(path.name, EXPANSION * path.stat().st_size)
    if b"<!ENTITY" in path.read_bytes().replace(b"\0", b""):  # UTF-16 and UTF-32 too
        raise ValueError(f"{path.name} must not define entities. Got <!ENTITY.")
    errors = (
        ParseError, networkx.NetworkXException, ValueError, TypeError, AttributeError, LookupError, StopIteration,
        RuntimeError, ArithmeticError,
    )  # fmt: skip
    with undamaged(path.name, f"be a {name} file", errors), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a column without a type is text
        return read(networkx)


@with_choices((*EDGE_OPTIONS, *ATTRIBUTES))
def networkx_graph(graph: networkx.Graph, choices: Choices) -> Data:
    """The graph, features and labels of a networkx graph; the options are those of :func:`gpnn.data.tables.tables`.

    Nodes may have any names and keep their order. An undirected edge becomes two.

    Raises:
        ValueError: in one sentence that names the node or the edge, the attribute and the value.

    >>> import networkx
    >>> graph = networkx.Graph([("ann", "bob")])
    >>> graph.add_nodes_from([("ann", {"label": "red", "age": 31}), ("bob", {"label": None, "age": 45})])
    >>> data = networkx_graph(graph)
    >>> data.node_name.tolist(), data.y.tolist(), data.feature_names
    (['ann', 'bob'], [0, -1], ['age'])
    """
    nodes, edges = node_table("The graph", graph), edge_table("The graph", graph, choices.weight)
    data = assemble(replace(nodes, written=ARGUMENT), replace(edges, written=ARGUMENT), choices)
    if not (graph.is_directed() or graph.is_multigraph()):
        data.undirected = True
    return data


def is_networkx(graph: Any) -> bool:
    """Whether an object is a graph of networkx, which need not be installed."""
    return hasattr(graph, "is_multigraph") and hasattr(graph, "edges")


def node_table(file: str, graph: networkx.Graph, drop: Sequence[str] = ()) -> Table:
    """The nodes and their attributes; `file` is what errors call the graph, `drop` are attributes to leave out."""
    rows = list(graph.nodes(data=True))
    names = dict.fromkeys(name for _, attributes in rows for name in attributes if name not in (*drop, "id"))
    columns = {"id": python_column([node for node, _ in rows])}
    for name in names:
        columns[str(name)] = python_column([attributes.get(name) for _, attributes in rows])
    return Table(file, columns, lambda row: f"node {rows[row][0]}")


def edge_table(file: str, graph: networkx.Graph, weight: str = "weight", drop: Sequence[str] = ()) -> Table:
    """Each edge, and of an undirected graph its reverse, with its attributes; one without `weight` has 1."""
    rows = list(graph.edges(data=True))
    if not graph.is_directed():
        rows += [(target, source, attributes) for source, target, attributes in rows if source != target]
    columns = {end: python_column([row[side] for row in rows]) for side, end in enumerate(("source", "target"))}
    unnamed = (*drop, *columns, "id")
    for name in dict.fromkeys(name for *_, attributes in rows for name in attributes if name not in unnamed):
        missing = 1.0 if name == weight else None
        columns[str(name)] = python_column([attributes.get(name, missing) for *_, attributes in rows])
    return Table(file, columns, lambda row: f"edge {rows[row][0]} to {rows[row][1]}")
