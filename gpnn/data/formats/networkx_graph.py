"""Graphs of networkx: attributes of nodes are columns, attributes `type` and `weight` of edges likewise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.column import python_column
from gpnn.data.tables.table import Table
from gpnn.data.tables.vocabulary import Choices, Vocabulary, split_list

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

EDGE_COLUMNS = ("type", "weight")


def networkx_graph(
    graph: networkx.Graph,
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
    """The graph, features and labels of a networkx graph; the options are those of :func:`gpnn.data.tables.tables`.

    Nodes may have any names and keep their order. An undirected edge becomes two. Attributes of edges other than `type`
    and `weight` are not used, which `notes` says.

    Raises:
        ValueError: in one sentence that names the node or the edge, the attribute and the value.

    >>> import networkx
    >>> graph = networkx.Graph([("ann", "bob")])
    >>> graph.add_nodes_from([("ann", {"label": "red", "age": 31}), ("bob", {"label": None, "age": 45})])
    >>> data = networkx_graph(graph)
    >>> data.node_name.tolist(), data.y.tolist(), data.feature_names
    (['ann', 'bob'], [0, -1], ['age'])
    """
    choices = Choices(label, split_list(categorical), split_list(ignore), numbers, undirected, seed, vocabulary, task)
    data = assemble(node_table("The graph", graph), edge_table("The graph", graph), choices)
    unused = dict.fromkeys(
        str(name) for _, _, attributes in graph.edges(data=True) for name in attributes if name not in EDGE_COLUMNS
    )
    if unused:
        shown = ", ".join(list(unused)[:12])
        data.notes.append(f"attributes of edges other than type and weight are not used: {shown}")
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


def edge_table(file: str, graph: networkx.Graph) -> Table:
    """Each edge, and of an undirected graph its reverse."""
    rows = list(graph.edges(data=True))
    if not graph.is_directed():
        rows += [(target, source, attributes) for source, target, attributes in rows if source != target]
    columns = {end: python_column([row[side] for row in rows]) for side, end in enumerate(("source", "target"))}
    for name in EDGE_COLUMNS:
        if any(name in attributes for _, _, attributes in rows):
            missing = 1.0 if name == "weight" else None
            columns[name] = python_column([attributes.get(name, missing) for _, _, attributes in rows])
    return Table(file, columns, lambda row: f"edge {rows[row][0]} to {rows[row][1]}")
