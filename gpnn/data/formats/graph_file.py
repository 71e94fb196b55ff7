"""A graph in one file: METIS, GraphML, GEXF, or a saved PyG `Data`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

import numpy as np

from gpnn.data.features import transform_data
from gpnn.data.formats.networkx_graph import edge_table, node_table
from gpnn.data.formats.pyg import read_pyg
from gpnn.data.labels import check_labels, labelled_nodes
from gpnn.data.splits import draw_split
from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.metis import read_metis
from gpnn.data.tables.table import Table
from gpnn.data.tables.vocabulary import Choices, Vocabulary, split_list
from gpnn.extra import install_command
from gpnn.storage.read import check_size, reason

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


EXPANSION = 40  # bytes of Python objects per byte of XML, roughly


def graph_file(
    path: str | Path,
    vocabulary: Vocabulary | None = None,
    *,
    label: str = "label",
    categorical: str = "",
    ignore: str = "",
    numbers: str = "standard",
    undirected: bool = False,
    task: str = "auto",
    seed: int = 0,
) -> Data:
    """The graph that a file holds, by its ending; the options are those of :func:`gpnn.data.tables.tables`.

    Args:
        path: the file, whose ending is in `GRAPH_READERS`.
        vocabulary: of the graph that a model was trained on: columns, classes and edge types keep its meaning.
        label: the attribute of the nodes that holds the class.
        categorical: attributes, separated by commas, that are categories though they look like numbers.
        ignore: attributes, separated by commas, that are not features.
        numbers: "standard" scales attributes of numbers to mean 0 and deviation 1; "raw" leaves them as they are.
        undirected: add the reverse of every edge that lacks it.
        task: what the label is: "classification", "regression" (a number), or "auto".
        seed: of the random split, where the file has none.

    Raises:
        ValueError: in one sentence that names the file and what is wrong.
    """
    path = Path(path)
    choices = Choices(label, split_list(categorical), split_list(ignore), numbers, undirected, seed, vocabulary, task)
    return GRAPH_READERS[path.suffix.lower()](path, choices)


def _metis(path: Path, choices: Choices) -> Data:
    import pyarrow

    edges, num_nodes = read_metis(path)
    numbers = pyarrow.array(np.arange(1, num_nodes + 1))
    return assemble(Table(path.name, {"id": numbers}, lambda row: f"node {row + 1}"), edges, choices)


def _graphml(path: Path, choices: Choices) -> Data:
    return assemble(*read_graphml(path), choices)


def _gexf(path: Path, choices: Choices) -> Data:
    return assemble(*read_gexf(path), choices)


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
    ".graphml": _graphml,
    ".gexf": _gexf,
    ".pt": _pyg,
}


def read_graphml(path: Path) -> tuple[Table, Table]:
    """The nodes and edges of a GraphML file; attributes of nodes are columns, of edges `type` and `weight`.

    Raises:
        ValueError: when it is not such a file.
    """
    graph = _read(path, "GraphML", lambda networkx: networkx.read_graphml(path))
    return node_table(path.name, graph), edge_table(path.name, graph)


def read_gexf(path: Path) -> tuple[Table, Table]:
    """The nodes and edges of a GEXF file; `label` is a display name there, so the class is the attribute `class`.

    Raises:
        ValueError: when it is not such a file.
    """
    graph = _read(path, "GEXF", lambda networkx: networkx.read_gexf(path))
    nodes = node_table(path.name, graph, drop=("label", "viz", "start", "end", "pid"))
    columns = {"label" if name == "class" else name: values for name, values in nodes.columns.items()}
    return Table(nodes.file, columns, nodes.place), edge_table(path.name, graph)


def _read(path: Path, name: str, read: Callable[[Any], networkx.Graph]) -> networkx.Graph:
    try:
        import networkx
    except ImportError:
        raise ImportError(f"{name} files need networkx: {install_command('networkx')}.") from None
    check_size(path.name, EXPANSION * path.stat().st_size)
    if b"<!ENTITY" in path.read_bytes().replace(b"\0", b""):  # UTF-16 and UTF-32 too
        raise ValueError(f"{path.name} must not define entities. Got <!ENTITY.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a column without a type is text
            graph = read(networkx)
    except (
        ParseError, networkx.NetworkXException, ValueError, TypeError, AttributeError, LookupError, StopIteration,
        RuntimeError, ArithmeticError,
    ) as error:  # fmt: skip
        raise ValueError(f"{path.name} must be a {name} file. Got: {reason(error)}.") from None
    return graph
