"""A whole graph in one file: METIS, GraphML, GEXF, or a saved PyG `Data`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpnn.data.formats.pyg import read_pyg
from gpnn.data.formats.xml_graph import read_gexf, read_graphml
from gpnn.data.labels import check_labels, labelled_nodes
from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.choices import Choices, split_list
from gpnn.data.tables.draw import draw_split
from gpnn.data.tables.metis import read_metis
from gpnn.data.tables.table import Table
from gpnn.data.tables.vocabulary import Vocabulary
from gpnn.data.transform import transform_data

if TYPE_CHECKING:
    from torch_geometric.data import Data


def graph_file(
    path: str | Path,
    vocabulary: Vocabulary | None = None,
    *,
    label: str = "label",
    categorical: str = "",
    ignore: str = "",
    numbers: str = "standard",
    undirected: bool = False,
    seed: int = 0,
) -> Data:
    """The graph that a file holds, by its ending; the options are those of :func:`gpnn.data.tables.tables`.

    Args:
        path: the file, whose ending is in `GRAPH_READERS`.
        vocabulary: of the graph that a model was trained on: columns, classes and edge types keep its meaning.
        label: the attribute of the nodes that holds the class.
        categorical: attributes, separated by commas, that are categories though they look like numbers.
        ignore: attributes, separated by commas, that are no features.
        numbers: "standard" gives attributes of numbers mean 0 and deviation 1; "raw" leaves them as they are.
        undirected: add the reverse of every edge that lacks it.
        seed: the draw of a split that the file does not give.

    Raises:
        ValueError: in one sentence that names the file and what is wrong.
    """
    path = Path(path)
    choices = Choices(label, split_list(categorical), split_list(ignore), numbers, undirected, seed, vocabulary)
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
    data = read_pyg(path)
    if data.get("y") is not None and data.get("train_mask") is None:
        data.y = check_labels(data.y, data.num_nodes)
        known = bool(labelled_nodes(data.y).any())
        data.remarks = [draw_split(data, choices.seed) if known else "no node is labelled"]
    return transform_data(data, undirected=choices.undirected)


GRAPH_READERS: dict[str, Callable[[Path, Choices], Data]] = {
    ".graph": _metis,
    ".metis": _metis,
    ".graphml": _graphml,
    ".gexf": _gexf,
    ".pt": _pyg,
}
