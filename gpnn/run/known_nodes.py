"""KnownNodes: the nodes that a model was trained on, found again in a graph, and the subgraphs that they are in."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gpnn.data.check import digest_data
from gpnn.data.features import csr_tensor
from gpnn.data.tables.column import named, plain_column
from gpnn.data.tables.table import places
from gpnn.graph import Graph, as_graph
from gpnn.nn import GPNN, NodeModel
from gpnn.nn.column_model import ColumnModel
from gpnn.nn.encoder import NodeEmbedding
from gpnn.partition import Partition
from gpnn.partition.partition import MOST_EMPTY
from gpnn.storage.read import shorten

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data

SAMPLE = 1000  # rows of features that are compared with each other


class RowDigests(NamedTuple):
    """Digests that show whether the first rows of a graph are the nodes that were trained on.

    Attributes:
        edges: digest of the edges among them.
        features: digest of their features; "" where all rows are equal, None where there are none.
    """

    edges: str
    features: str | None

    @classmethod
    def of(cls, data: Data) -> RowDigests:
        """The digests of all nodes of a graph."""
        x = data.get("x")
        return cls(fingerprint(as_graph(data)), None if x is None else digest_rows(x, data.num_nodes))

    @classmethod
    def parse(cls, value: Any, file: str) -> RowDigests:
        """The digests as JSON holds them: name -> digest.

        Raises:
            ValueError: when it holds something else.
        """
        if not isinstance(value, dict) or set(value) != set(cls._fields):
            raise ValueError(f"{file} must hold digests of edges and features. Got {shorten(value)}.")
        return cls(**value)


@dataclass(frozen=True, eq=False)
class KnownNodes:
    """The nodes that a model was trained on.

    Attributes:
        ids: the id of each node, `[N]`: the user's, or its row.
        labels: the subgraph of each node, from 0, int64 `[N]`, or None under a schedule that needs no partition.
        digests: of the graph where ids are rows, to distinguish its nodes from those of an entirely new graph; None
            where the ids are the user's own.
    """

    ids: pyarrow.Array
    labels: np.ndarray | None
    digests: RowDigests | None

    @classmethod
    def of(cls, data: Data, partition: Partition | None) -> KnownNodes:
        """The nodes of a graph and its partition."""
        names = data.get("node_name")
        labels = None if partition is None else partition.labels.numpy()
        return cls(node_ids(data), labels, RowDigests.of(data) if names is None else None)

    @classmethod
    def from_table(cls, table: pyarrow.Table, digests: RowDigests | None, file: str) -> KnownNodes:
        """The nodes of a table with a column `node` and perhaps `subgraph`; `file` is the one it was read from.

        Raises:
            ValueError: when a column is missing or holds something else.
        """
        if "node" not in table.column_names:
            raise ValueError(f"{file} must have a column node. Got {shorten(table.column_names)}.")
        labels = _read_labels(table, file) if "subgraph" in table.column_names else None
        return cls(named(plain_column(table["node"])), labels, digests)

    def to_table(self) -> pyarrow.Table:
        """Columns `node` and, where there is a partition, `subgraph`, as :meth:`from_table` reads them."""
        import pyarrow

        columns = {} if self.labels is None else {"subgraph": self.labels}
        return pyarrow.table({"node": self.ids, **columns})

    def find(self, data: Data) -> np.ndarray:
        """The place of each node of a graph among the known ones, -1 for a new one, `[N]`.

        Nodes are found by the user's ids. Rows of a graph without ids are known nodes where it has at least as many,
        and the first of them have the same features, or the same edges among them, as in training.
        """
        if data.get("node_name") is not None or self.digests is None:
            return places(node_ids(data), self.ids)
        rows = np.arange(data.num_nodes)
        known = len(self.ids)
        return np.where(rows < known, rows, -1) if self._same_rows(data, self.digests) else np.full_like(rows, -1)

    def partition(self, data: Data, place: np.ndarray | None = None) -> Partition | None:
        """The partition of a graph in which known nodes keep their subgraph and new ones join a neighbour's.

        Args:
            data: the graph.
            place: what :meth:`find` gives for it, where that is known already.

        Returns:
            None where no node is known, or known nodes are in no subgraphs.
        """
        if self.labels is None:
            return None
        place = self.find(data) if place is None else place
        if not (place >= 0).any():
            return None
        from gpnn.partition.neighbours import extend

        return extend(as_graph(data), np.append(self.labels, -1)[place], int(self.labels.max()) + 1)

    def _same_rows(self, data: Data, trained: RowDigests) -> bool:
        known, x = len(self.ids), data.get("x")
        if data.num_nodes < known:
            return False
        if x is None and trained.features is None:  # a model of embeddings: its rows are its nodes
            return True
        if x is not None and trained.features and digest_rows(x, known) == trained.features:
            return True
        return fingerprint(as_graph(data).subgraph(torch.arange(known))) == trained.edges


class Placed(NamedTuple):
    """A trained model and what it knows of the nodes of a graph.

    Attributes:
        model: for that graph.
        place: of each node among those trained on, -1 for a new one, `[N]`; None where none is on record.
        partition: in which known nodes keep their subgraph; None where there is none to keep.
    """

    model: NodeModel
    place: np.ndarray | None
    partition: Partition | None


def place_model(model: NodeModel, known: KnownNodes | None, data: Data) -> Placed:
    """A trained model on a graph: its own, one that has grown, or another.

    Labels that a model of columns counts stay with their nodes, and so do embeddings where nodes have ids; then new
    nodes get some, too. Embeddings of the model given stay as they are.

    Args:
        model: trained.
        known: the nodes that it was trained on; None where they are not on record.
        data: the graph, as the model takes it.

    Raises:
        ValueError: when nodes have embeddings and none of them is known.
    """
    place = None if known is None else known.find(data)
    if isinstance(model, ColumnModel):
        model.move_labels(torch.full((data.num_nodes,), -1) if place is None else torch.from_numpy(place))
    elif isinstance(model, GPNN) and model.embedding is not None and place is not None and "node_name" in data:
        model = deepcopy(model, {id(model.embedding): grow_embedding(model.embedding, place, as_graph(data))})
    return Placed(model, place, None if known is None else known.partition(data, place))


def grow_embedding(embedding: NodeEmbedding, row: np.ndarray, graph: Graph) -> NodeEmbedding:
    """An embedding for every node of a graph.

    A new node starts from the mean of its neighbours', new ones next to known ones first, or from zeros where it has
    none.

    Args:
        embedding: of the graph that was trained on.
        row: the row of each node that has one, -1 for a new node, `[N]`.
        graph: the graph that has grown.

    Raises:
        ValueError: when no node has a row.
    """
    old = embedding.weight.detach().cpu()
    known = torch.from_numpy(row) >= 0
    if not known.any() or int(row.max()) >= len(old):
        raise ValueError(
            f"A model with embeddings predicts on graphs that share nodes with its own {len(old)}. "
            f"Got {graph.num_nodes} nodes, none of them known."
        )
    weight = old.new_zeros(graph.num_nodes, old.shape[1])
    weight[known] = old[torch.from_numpy(row)[known]]
    while not known.all():
        total, count = torch.zeros_like(weight), torch.zeros(graph.num_nodes)
        for src, dst in ((graph.src, graph.dst), (graph.dst, graph.src)):
            joins = known[src] & ~known[dst]
            total.index_add_(0, dst[joins], weight[src[joins]])
            count.index_add_(0, dst[joins], torch.ones(int(joins.sum())))
        reached = count > 0
        if not reached.any():
            break
        weight[reached] = total[reached] / count[reached, None]
        known = known | reached
    return deepcopy(embedding, {id(embedding.weight): nn.Parameter(weight.to(embedding.weight.device))})


def digest_rows(x: Tensor, num_rows: int) -> str:
    """The digest of the first rows of features `[N, F]`, dense or sparse CSR; "" where all rows are equal.

    Equal rows identify no node. Dense rows count as equal when a thousand of them, evenly spaced, are.

    >>> digest_rows(torch.ones(3, 2), 2)
    ''
    """
    from torch_geometric.data import Data

    if x.layout == torch.strided:
        sample = x[torch.linspace(0, num_rows - 1, min(num_rows, SAMPLE), dtype=torch.float64).long()]
        return "" if bool((sample == sample[0]).all()) else digest_data(Data(x=x[:num_rows]))
    begins = x.crow_indices()[: num_rows + 1]
    entries = slice(int(begins[-1]))
    arrays = (begins, x.col_indices()[entries], x.values()[entries])
    ptr, columns, values = (array.cpu().numpy() for array in arrays)
    return digest_data(Data(x=csr_tensor(ptr, columns, values, (num_rows, x.shape[1]))))


def node_ids(data: Data) -> pyarrow.Array:
    """The id of each node as a table of nodes names it: the user's, or its row."""
    import pyarrow

    names = data.get("node_name")
    return named(plain_column(pyarrow.array(np.arange(data.num_nodes) if names is None else names)))


def find_nodes(data: Data, nodes: Any) -> np.ndarray:
    """The rows of the nodes of these ids, int64 `[n]`.

    Args:
        data: the graph.
        nodes: the user's ids, or rows where nodes have none, `[n]` or `[n, 1]`.

    Raises:
        ValueError: when one is not the id of a node.

    >>> find_nodes(Graph([0], [1], num_nodes=2).to_data(), [1, "0"]).tolist()
    [1, 0]
    """
    import pyarrow

    given = np.asarray(nodes)
    if given.ndim > 2 or (given.ndim == 2 and given.shape[1] != 1):
        raise ValueError(f"Nodes must be a list of ids, or one column of them. Got the shape {list(given.shape)}.")
    ids = given.ravel().tolist()
    try:
        rows = places(named(plain_column(pyarrow.array(ids))), node_ids(data))
    except pyarrow.ArrowException:
        raise ValueError(f"Nodes must be a list of ids. Got {shorten(ids)}.") from None
    if (rows < 0).any():
        raise ValueError(f"`node` must be the id of a node of the graph. Got {shorten(ids[int(np.argmin(rows))])}.")
    return rows


def _read_labels(table: pyarrow.Table, file: str) -> np.ndarray:
    import pyarrow

    column = table["subgraph"]
    if not pyarrow.types.is_integer(column.type) or column.null_count or not len(column):
        raise ValueError(f"{file}, column subgraph: must hold whole numbers. Got {column.type}.")
    labels = column.to_numpy().astype(np.int64)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(labels) + MOST_EMPTY:
        most = len(labels) + MOST_EMPTY
        raise ValueError(f"{file}, column subgraph: must lie from 0 to {most - 1}. Got {low if low < 0 else high}.")
    return labels


def fingerprint(graph: Graph) -> str:
    """A hash of the graph's structure: equal for the same edges, types and weights in the same order."""
    return hashlib.sha256(f"{graph.num_nodes} {graph.digest().listed}".encode()).hexdigest()
