"""Shard: the part of a graph that one process owns, built from a whole graph or read from its own file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.distributed.node_order import NodeOrder
from gpnn.graph import Graph


class Totals(NamedTuple):
    """What a process must know of the whole graph."""

    num_nodes: int
    num_edges: int
    num_edge_types: int
    num_parts: int


@dataclass(frozen=True, eq=False)
class Shard:
    """The rows that one process owns, every edge into them, and the rows elsewhere that these edges come from.

    The nodes of the whole graph have one order, subgraph after subgraph (:class:`~gpnn.distributed.NodeOrder`); rank r
    owns the positions from `bounds[r]` to `bounds[r + 1]` in it. Local rows are the own ones, then the halo.

    Attributes:
        graph: the local rows, and the edges into own rows: by receiver, as the whole graph orders them in each.
        num_own: number of own rows n.
        nodes: the user's node in each own row, int64, `[n]`.
        halo: positions of the halo rows, int64, rising, `[h]`.
        bounds: where each rank's positions begin, `[R + 1]`.
        part_ptr: where the own subgraphs begin among the own rows, `[k + 1]`.
        edges: id of each edge in the whole graph, `[e]`.
        totals: sizes of the whole graph.
        virtual: which local rows are virtual nodes, bool, `[n + h]`, or None: none; own ones come last.
    """

    graph: Graph
    num_own: int
    nodes: Tensor
    halo: Tensor
    bounds: Tensor
    part_ptr: Tensor
    edges: Tensor
    totals: Totals
    virtual: Tensor | None = None

    @property
    def num_virtual(self) -> int:
        """How many own rows are virtual nodes."""
        return 0 if self.virtual is None else int(self.virtual[: self.num_own].sum())

    @property
    def labels(self) -> Tensor:
        """The own subgraph of each own row, from 0, `[n]`."""
        return torch.repeat_interleave(torch.arange(self.part_ptr.numel() - 1), self.part_ptr.diff())


def localize(
    src: Tensor, counts: Tensor, first: int, edge_type: Tensor | None, edge_weight: Tensor | None
) -> tuple[Graph, Tensor]:
    """The local graph of the rows from position `first` on, and the positions of its halo.

    Args:
        src: position of each edge's sender, edges by receiver, `[e]`.
        counts: edges into each own row, `[n]`.
        first: position of the first own row.
        edge_type: type of each edge, or None.
        edge_weight: weight of each edge, or None.
    """
    num_own = len(counts)
    elsewhere = (src < first) | (src >= first + num_own)
    halo, ghost = src[elsewhere].unique(return_inverse=True)
    local = src - first
    local[elsewhere] = num_own + ghost
    dst = torch.repeat_interleave(torch.arange(num_own), counts)
    return Graph(local, dst, num_own + len(halo), edge_type, edge_weight), halo


def parts_between(part_ptr: Tensor, first: int, last: int) -> Tensor:
    """Where the subgraphs that lie between two positions begin, counted from the first of them, `[k + 1]`."""
    return part_ptr[(part_ptr >= first) & (part_ptr <= last)] - first


class ShardBuilder:
    """Builds the shards of a whole graph; what all of them need is computed once.

    Args:
        graph: the whole graph, virtual nodes last.
        order: which rank owns which nodes; without virtual nodes.
        num_virtual: how many nodes are virtual.
    """

    def __init__(self, graph: Graph, order: NodeOrder, num_virtual: int = 0) -> None:
        self.graph, self.order, self.num_virtual = graph, order.with_virtual(num_virtual), num_virtual
        self.position = torch.empty_like(self.order.nodes)
        self.position[self.order.nodes] = torch.arange(len(self.position))
        self.incoming = graph.in_edges()  # by receiver, in edge order

    def build(self, rank: int) -> Shard:
        """The shard of one rank."""
        first, last = (int(bound) for bound in self.order.bounds[rank : rank + 2])
        nodes = self.order.nodes[first:last]
        edges, counts = self._edges_into(nodes)
        pick = lambda values: None if values is None else values[edges]  # noqa: E731
        extra = (pick(self.graph.edge_type), pick(self.graph.edge_weight))
        graph, halo = localize(self.position[self.graph.src[edges]], counts, first, *extra)
        return Shard(
            graph,
            last - first,
            nodes,
            halo,
            self.order.bounds,
            parts_between(self.order.part_ptr, first, last),
            edges,
            Totals(
                self.graph.num_nodes - self.num_virtual,
                self.graph.num_edges,
                self.graph.num_edge_types,
                self.order.part_ptr.numel() - 1,
            ),
            self._virtual(first, last, halo),
        )

    def _edges_into(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The edges into `nodes`, node by node, and how many each has."""
        ptr = torch.from_numpy(self.incoming.ptr)
        counts = ptr[nodes + 1] - ptr[nodes]
        start = torch.repeat_interleave(ptr[nodes] - (counts.cumsum(0) - counts), counts)
        assert self.incoming.edge is not None
        return torch.from_numpy(self.incoming.edge)[start + torch.arange(len(start))].long(), counts

    def _virtual(self, first: int, last: int, halo: Tensor) -> Tensor | None:
        if not self.num_virtual:
            return None
        real = self.graph.num_nodes - self.num_virtual
        return torch.cat([torch.arange(first, last), halo]) >= real
