"""Graph: a directed typed multigraph, checked once when it is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice, check_count
from gpnn.csr import CSR, compress, connect, index_type, pointers, slices
from gpnn.graph.convert import (
    or_fill,
    read_data,
    read_hetero,
    read_networkx,
    read_scipy,
    write_data,
    write_networkx,
    write_scipy,
)
from gpnn.graph.edges import (
    CSRRows,
    EdgeDigest,
    check_edge_values,
    check_structure,
    digest_edges,
    distinct_edges,
    integers,
    receivers,
    reduce_equal,
    selection,
    twice,
    weights,
)

if TYPE_CHECKING:
    import networkx
    import scipy.sparse
    from torch_geometric.data import Data, HeteroData

GraphLike: TypeAlias = "Graph | Data | HeteroData | scipy.sparse.spmatrix | networkx.Graph"


@dataclass(frozen=True, eq=False)
class Graph:
    """The structure that messages are sent on: edge e carries a message from `src[e]` to `dst[e]`.

    An edge's id is its position. Multi-edges and self-loops are legal. Features, labels and masks live in
    PyG's `Data` (see :func:`gpnn.data.check_data`).

    Attributes:
        src: sender of each edge, int64, `[E]`.
        dst: receiver of each edge, int64, `[E]`.
        num_nodes: number of nodes N, at least one.
        edge_type: type of each edge, from 0, int64, `[E]`, or None.
        edge_weight: weight of each edge, finite, floating point, `[E]`, or None.
        rows: the edges by receiver where the graph was made of them by :meth:`from_csr`, else None. Such a graph holds
            them as they are, wherever they lie; `src` and `dst` are then made on first use, 16 bytes per edge.

    Raises:
        ValueError: naming the constraint and the offending value.

    >>> Graph([0, 1, 1], [1, 0, 2], num_nodes=3)
    Graph(num_nodes=3, num_edges=3)
    """

    src: Tensor
    dst: Tensor
    num_nodes: int
    edge_type: Tensor | None = None
    edge_weight: Tensor | None = None
    rows: CSRRows | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        checked = {
            "src": integers("src", self.src),
            "dst": integers("dst", self.dst),
            "num_nodes": check_count("num_nodes", self.num_nodes),
            "edge_type": None if self.edge_type is None else integers("edge_type", self.edge_type),
            "edge_weight": None if self.edge_weight is None else weights(self.edge_weight),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        check_structure(self)

    def __getattr__(self, name: str) -> Any:
        """`src` and `dst` of a graph made of rows, which are not there before they are needed."""
        rows = self.__dict__.get("rows")
        if name not in ("src", "dst") or rows is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        for end, values in zip(("src", "dst"), rows.edge_list()):
            object.__setattr__(self, end, values)
        return self.__dict__[name]

    def __repr__(self) -> str:
        typed = f", num_edge_types={self.num_edge_types}" if self.edge_type is not None else ""
        weighted = ", weighted" if self.edge_weight is not None else ""
        return f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges}{typed}{weighted})"

    @property
    def num_edges(self) -> int:
        return self.src.numel() if self.rows is None else self.rows.num_edges

    @cached_property
    def num_edge_types(self) -> int:
        """One past the largest edge type; 1 for an untyped graph."""
        if self.edge_type is None or not self.num_edges:
            return 1
        return int(self.edge_type.max()) + 1

    @cached_property
    def in_degree(self) -> Tensor:
        """Number of edges into each node, `[N]`."""
        if self.rows is not None:
            return self.rows.ptr.diff().cpu()
        return torch.bincount(self.dst, minlength=self.num_nodes)

    @cached_property
    def out_degree(self) -> Tensor:
        """Number of edges out of each node, `[N]`."""
        if self.rows is not None and self.rows.by_sender is not None:
            return self.rows.by_sender[0].diff().cpu()
        return torch.bincount(self.src, minlength=self.num_nodes)

    def digest(self) -> EdgeDigest:
        """A digest of the edges, their types and weights as they are now: see :mod:`gpnn.graph.edges`."""
        if self.rows is not None:
            return self.rows.digest(self.edge_type, self.edge_weight)
        return digest_edges(self.src, self.dst, self.edge_type, self.edge_weight)

    def edge_chunks(self, size: int = 1 << 20) -> Iterator[tuple[Tensor, Tensor]]:
        """Sender and receiver of consecutive edges, int64, `size` at a time; the edge list of rows is not made."""
        for chunk in slices(self.num_edges, size):
            if self.rows is None:
                yield self.src[chunk], self.dst[chunk]
            else:
                yield self.rows.col[chunk].cpu().long(), receivers(self.rows.ptr, chunk).cpu()

    def out_edges(self, *, with_edge: bool = True) -> CSR:
        """The edges grouped by sender, as numpy arrays; built anew at each call unless the graph holds them."""
        if self.rows is not None and self.rows.by_sender is not None and not with_edge:
            ptr, index = (each.cpu().numpy() for each in self.rows.by_sender)
            return CSR(ptr, index, None)
        return compress(self.src.numpy(), self.dst.numpy(), self.num_nodes, with_edge=with_edge)

    def in_edges(self, *, with_edge: bool = True) -> CSR:
        """The edges grouped by receiver, as numpy arrays; built anew at each call unless the graph holds them."""
        if self.rows is not None:
            edge = np.arange(self.num_edges, dtype=index_type(self.num_edges)) if with_edge else None
            return CSR(self.rows.ptr.cpu().numpy(), self.rows.col.cpu().numpy(), edge)
        return compress(self.dst.numpy(), self.src.numpy(), self.num_nodes, with_edge=with_edge)

    def components(self) -> Tensor:
        """Label of each node's weakly connected component, `[N]`, numbered by their first node."""
        return torch.from_numpy(connect(self.src.numpy(), self.dst.numpy(), self.num_nodes))

    def to_undirected(self) -> Graph:
        """Every edge joined by its reverse (same type and weight), each distinct edge kept once."""
        return self.with_reverses()[0]

    def with_reverses(self) -> tuple[Graph, Tensor]:
        """The graph of :meth:`to_undirected`, and of each of its edges the edge that it came from, `[E']`."""
        src, dst = torch.cat([self.src, self.dst]), torch.cat([self.dst, self.src])
        doubled = Graph(src, dst, self.num_nodes, twice(self.edge_type), twice(self.edge_weight))
        order, first = distinct_edges(doubled)
        keep = order[first]
        return doubled.select_edges(keep), keep % max(self.num_edges, 1)

    def with_reverse_types(self) -> Graph:
        """Every edge, then the reverse of every edge; the reverse of an edge of type c has type C + c.

        >>> both = Graph([0, 1], [1, 2], num_nodes=3).with_reverse_types()
        >>> both.src.tolist(), both.dst.tolist(), both.edge_type.tolist()
        ([0, 1, 1, 2], [1, 2, 0, 1], [0, 0, 1, 1])
        """
        src, dst = torch.cat([self.src, self.dst]), torch.cat([self.dst, self.src])
        forward = torch.zeros_like(self.src) if self.edge_type is None else self.edge_type
        types = torch.cat([forward, forward + self.num_edge_types])
        return Graph(src, dst, self.num_nodes, types, twice(self.edge_weight))

    def coalesce(self, reduce: str = "sum") -> Graph:
        """Distinct edges only, sorted by (src, dst, type); weights of equal edges are reduced.

        Args:
            reduce: how the weights of equal edges are combined: "sum", "mean", "max" or "first".
        """
        check_choice("reduce", reduce, ("sum", "mean", "max", "first"))
        order, first = distinct_edges(self)
        keep = order[first]
        weight = self.edge_weight
        if weight is not None:
            weight = weight[keep] if reduce == "first" else reduce_equal(weight[order], first, reduce)
        edge_type = None if self.edge_type is None else self.edge_type[keep]
        return Graph(self.src[keep], self.dst[keep], self.num_nodes, edge_type, weight)

    def select_edges(self, edges: Tensor) -> Graph:
        """The same nodes with the given edges (ids or a mask), in that order."""
        pick = lambda values: None if values is None else values[edges]  # noqa: E731
        return replace(
            self,
            src=self.src[edges],
            dst=self.dst[edges],
            edge_type=pick(self.edge_type),
            edge_weight=pick(self.edge_weight),
        )

    def subgraph(self, nodes: Tensor) -> Graph:
        """The graph induced by `nodes` (ids or a mask), renumbered in the order given."""
        nodes = selection(nodes, self.num_nodes)
        position = torch.full((self.num_nodes,), -1, dtype=torch.int64)
        position[nodes] = torch.arange(nodes.numel())
        inside = self.select_edges((position[self.src] >= 0) & (position[self.dst] >= 0))
        return replace(inside, src=position[inside.src], dst=position[inside.dst], num_nodes=nodes.numel())

    @classmethod
    def union(cls, graphs: Sequence[GraphLike]) -> tuple[Graph, Tensor]:
        """One disjoint union of many graphs, and where each one's nodes begin, `[G + 1]`.

        A graph without types among typed ones gets type 0, one without weights weight 1.
        """
        parts = [as_graph(graph) for graph in graphs]
        if not parts:
            raise ValueError("`graphs` must hold at least one graph. Got none.")
        ptr = pointers(torch.tensor([part.num_nodes for part in parts]))
        typed = any(part.edge_type is not None for part in parts)
        weighted = any(part.edge_weight is not None for part in parts)
        return cls(
            torch.cat([part.src + start for part, start in zip(parts, ptr)]),
            torch.cat([part.dst + start for part, start in zip(parts, ptr)]),
            int(ptr[-1]),
            torch.cat([or_fill(p.edge_type, p.num_edges, 0) for p in parts]) if typed else None,
            torch.cat([or_fill(p.edge_weight, p.num_edges, 1.0) for p in parts]) if weighted else None,
        ), ptr

    def to(self, device: torch.device | str) -> Graph:
        """The same graph, its rows on a device; an edge list stays in host memory, where schedules are made of it."""
        if self.rows is None:
            return self
        rows = self.rows.to(device)
        return Graph.from_csr(
            rows.ptr,
            rows.col,
            symmetric=rows.symmetric,
            edge_type=self.edge_type,
            edge_weight=self.edge_weight,
            known_digest=rows.known_digest,
        )

    @classmethod
    def from_csr(
        cls,
        ptr: Tensor,
        col: Tensor,
        *,
        symmetric: bool = False,
        out: tuple[Tensor, Tensor] | None = None,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
        known_digest: EdgeDigest | None = None,
    ) -> Graph:
        """A graph over the rows of its receivers, which it shares: in memory, mapped or on a device.

        Args:
            ptr: where each node's edges begin, int64, `[N + 1]`.
            col: their senders, int32 or int64, `[E]`.
            symmetric: whether the reverse of every edge is there equally often, with the same type and weight; it is
                not checked.
            out: `ptr` and receivers of the rows of senders, where they are known and the graph is not symmetric.
            edge_type: type of each entry of `col`, integers from 0, `[E]`, or None.
            edge_weight: weight of each entry, `[E]`, or None.
            known_digest: what :meth:`digest` returns, where it is known and the arrays will not change.

        Raises:
            ValueError: naming the constraint and the offending value.

        >>> ring = Graph.from_csr(torch.arange(0, 7, 2), torch.tensor([1, 2, 0, 2, 0, 1]), symmetric=True)
        >>> ring, ring.src.tolist(), ring.dst.tolist()
        (Graph(num_nodes=3, num_edges=6), [1, 2, 0, 2, 0, 1], [0, 0, 1, 1, 2, 2])
        """
        rows = CSRRows(ptr, col, symmetric, out, known_digest)
        graph = object.__new__(cls)
        values = {"num_nodes": rows.num_nodes, "edge_type": edge_type, "edge_weight": edge_weight, "rows": rows}
        for name, value in values.items():
            object.__setattr__(graph, name, value)
        check_edge_values(graph)
        return graph

    @classmethod
    def from_data(cls, data: Data) -> Graph:
        """The structure of a PyG `Data`: `edge_index`, `edge_type`, and `edge_weight` or one floating `edge_attr`.

        A `Data` that has a `graph` (:func:`gpnn.load_dataset` of a converted graph) gives that one.
        """
        made = data.get("graph")
        return made if isinstance(made, Graph) else cls(*read_data(data))

    @classmethod
    def from_hetero(cls, data: HeteroData) -> Graph:
        """A `HeteroData` as one typed graph: node types follow each other, edge types are numbered in order."""
        return cls(*read_hetero(data))

    @classmethod
    def from_scipy(cls, matrix: scipy.sparse.spmatrix) -> Graph:
        """A square sparse matrix: entry (i, j) is an edge i → j; values other than 1 become weights."""
        return cls(*read_scipy(matrix))

    @classmethod
    def from_networkx(cls, graph: networkx.Graph, nodes: Iterable[Any] | Mapping[Any, int] | None = None) -> Graph:
        """A networkx graph; an undirected edge becomes two, sorted by (src, dst); `type`, `weight` are kept.

        Args:
            graph: the graph.
            nodes: the name of each row's node, in the order of the features' rows, or the row of each name; nodes that
                the graph lacks have no edges. None: its nodes are the integers 0…N−1, each its own row.

        Raises:
            ValueError: when nodes have other names and `nodes` does not give their rows.

        >>> import networkx
        >>> Graph.from_networkx(networkx.Graph([("b", "a")]), nodes=["a", "b", "c"])
        Graph(num_nodes=3, num_edges=2)
        """
        return cls(*read_networkx(graph, nodes))

    def to_data(self) -> Data:
        """A PyG `Data` with `edge_index`, `num_nodes`, and `edge_type` and `edge_weight` where there are any."""
        return write_data(self)

    def to_scipy(self, *, weighted: bool = True) -> scipy.sparse.csr_matrix:
        """The adjacency matrix, `[N, N]`, rows are senders; parallel edges add up."""
        return write_scipy(self, weighted=weighted)

    def to_networkx(self) -> networkx.MultiDiGraph:
        """A networkx `MultiDiGraph` with `type` and `weight` on the edges where there are any."""
        return write_networkx(self)


def as_graph(graph: GraphLike) -> Graph:
    """A graph of gpnn, PyG, scipy or networkx as a :class:`Graph`.

    Raises:
        ValueError: for any other type.
    """
    if isinstance(graph, Graph):
        return graph
    module = type(graph).__module__
    if hasattr(graph, "node_types") and hasattr(graph, "edge_types"):
        return Graph.from_hetero(graph)
    if hasattr(graph, "edge_index"):
        return Graph.from_data(graph)
    if module.startswith("scipy.sparse"):
        return Graph.from_scipy(graph)
    if hasattr(graph, "is_directed") and hasattr(graph, "edges"):
        return Graph.from_networkx(graph)
    raise ValueError(
        "A graph must be a gpnn.Graph, a PyG Data or HeteroData, a scipy sparse matrix or a networkx graph. "
        f"Got {type(graph).__name__}."
    )
