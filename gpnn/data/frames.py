"""Frames of pandas, polars, pyarrow or DuckDB: the graph of two of them, and answers as a frame of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpnn.data.check import check_data
from gpnn.data.tables import join_edges
from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.binary import plain_table
from gpnn.data.tables.table import Table, name_columns
from gpnn.data.tables.vocabulary import Choices, Vocabulary

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data

PACKAGES = ("pandas", "polars", "duckdb")  # packages whose frames are answered in their own kind; others: pyarrow
INDEX = "__index_level_"  # what pyarrow calls an index of pandas that has no name


def from_frames(
    nodes: Any,
    edges: Any,
    vocabulary: Vocabulary | None = None,
    *,
    id: str = "id",
    source: str = "source",
    target: str = "target",
    type: str = "type",
    weight: str = "weight",
    label: str = "label",
    edge_features: str | Sequence[str] = (),
    categorical: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    numbers: str = "standard",
    undirected: bool = False,
    task: str = "auto",
    seed: int = 0,
) -> Data:
    """The graph that a frame of nodes and a frame of edges describe, read as a folder of tables is.

    A frame is one of pandas, of polars, a pyarrow table, a DuckDB relation, or any object with Arrow's
    `__arrow_c_stream__`. An index of pandas that has a name is a column; one without is left out. Columns, classes and
    missing labels mean what they mean in :func:`gpnn.data.tables.tables`; errors call the tables `nodes` and `edges`.

    Args:
        nodes: a row per node; None: the nodes that the edges name.
        edges: a row per edge; besides its ends it may have `type`, `weight` and features. A dictionary of frames has
            the edges of one type each, by its name.
        vocabulary: of the frames that a model was trained on: columns, classes and edge types keep its meaning.
        id: the column of the nodes that names them.
        source: the column of the edges that names the node a message comes from.
        target: the column of the edges that names the node it goes to.
        type: the column of the edges that holds their type.
        weight: the column of the edges that holds their weight.
        label: the column of the nodes that holds the class or the number to predict.
        edge_features: columns of the edges for `data.edge_attr`, which `gpnn.nn.Scheduled` takes, listed likewise.
        categorical: columns that are categories though they look like numbers, in a list or separated by commas.
        ignore: columns that are not features, likewise.
        numbers: "standard", "normal" or "raw": how columns of numbers are scaled.
        undirected: add the reverse of every edge that lacks it.
        task: what the label is: "classification", "regression" (a number), or "auto".
        seed: of the random split, where the nodes have no column `split`.

    Returns:
        `Data` as :func:`gpnn.load_dataset` gives it, with `frame_kind`, the package that the nodes came from.

    Raises:
        ValueError: in one sentence that names the table, the row, the column and the value.

    >>> import pyarrow
    >>> nodes = pyarrow.table({"id": ["ann", "bob", "cleo"], "label": ["chess", "choir", None], "age": [31, 45, 22]})
    >>> edges = pyarrow.table({"from": ["ann", "cleo"], "to": ["cleo", "bob"]})
    >>> data = from_frames(nodes, edges, source="from", target="to", undirected=True)
    >>> data.class_names, data.y.tolist(), data.feature_names
    (['chess', 'choir'], [0, 1, -1], ['age'])
    """
    choices = Choices(
        label, categorical, ignore, numbers, undirected, seed, vocabulary, task,
        id, source, target, type, weight, edge_features,
    )  # fmt: skip
    rows = None if nodes is None else read_frame("nodes", nodes)
    data = check_data(assemble(rows, _read_edges(edges, choices), choices))
    first = next(iter(edges.values())) if isinstance(edges, dict) else edges
    data.frame_kind = kind_of_frame(first if nodes is None else nodes)
    return data


def _read_edges(edges: Any, choices: Choices) -> Table:
    if not isinstance(edges, dict):
        return read_frame("edges", edges)
    if not edges:
        raise ValueError("`edges` must hold at least one frame. Got an empty dictionary.")
    parts = [name_columns(read_frame(f"edges of {name}", each), choices.edge_names) for name, each in edges.items()]
    return replace(join_edges(parts, [str(name) for name in edges]), notes=())


def read_frame(name: str, frame: Any) -> Table:
    """A frame as a table of plain columns, which errors call `name`.

    Raises:
        ValueError: when it is not a frame, or a column holds neither text nor numbers.
    """
    table = to_arrow(name, frame)
    return plain_table(name, table.select([each for each in table.column_names if not each.startswith(INDEX)]))


def to_arrow(name: str, frame: Any) -> pyarrow.Table:
    """A frame as a pyarrow table, by Arrow's C stream, or by the frame's own method where it has none.

    Raises:
        ValueError: when it is no frame, or a column mixes types.
    """
    import pyarrow

    if isinstance(frame, pyarrow.Table):
        return frame
    try:
        if hasattr(frame, "collect") and kind_of_frame(frame) == "polars":  # a lazy one
            frame = frame.collect()
        if hasattr(frame, "__arrow_c_stream__"):
            return pyarrow.table(frame)
        if kind_of_frame(frame) == "pandas":
            return pyarrow.Table.from_pandas(frame)
        if hasattr(frame, "to_arrow_table"):
            return frame.to_arrow_table()
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must have columns of one type each. Got: {_shorten(error)}.") from None
    raise ValueError(f"`{name}` must be a data frame of pandas, polars, pyarrow or DuckDB. Got {type(frame).__name__}.")


def kind_of_frame(frame: Any) -> str:
    """The package that a frame came from: "pandas", "polars", "duckdb", or "pyarrow" for all others."""
    package = type(frame).__module__.partition(".")[0].lstrip("_")
    return package if package in PACKAGES else "pyarrow"


def to_frame(table: pyarrow.Table, kind: str | None) -> Any:
    """A table as a frame of the kind that :func:`kind_of_frame` named; None is pyarrow."""
    if kind == "pandas":
        return table.to_pandas()
    if kind in PACKAGES:
        return import_module(kind).from_arrow(table)
    return table


def _shorten(error: Exception) -> str:
    return "; ".join(map(str, error.args))[:200].rstrip(".")
