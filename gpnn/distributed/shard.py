"""Shard: the part of a graph that one process owns, and NodeOrder, the order of all nodes that it is a range of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import pointers, row_entries
from gpnn.graph import Graph
from gpnn.partition import Partition


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
        assert self.incoming.edge is not None
        counts, entries = row_entries(torch.from_numpy(self.incoming.ptr), nodes)
        return torch.from_numpy(self.incoming.edge)[entries].long(), counts

    def _virtual(self, first: int, last: int, halo: Tensor) -> Tensor | None:
        if not self.num_virtual:
            return None
        real = self.graph.num_nodes - self.num_virtual
        return torch.cat([torch.arange(first, last), halo]) >= real


DENSE_PARTS = 1024  # up to here the order of subgraphs comes from an eigenvector, beyond from a breadth-first search


@dataclass(frozen=True, eq=False)
class NodeOrder:
    """The nodes of a graph in one order, subgraph after subgraph, of which each rank owns a contiguous range.

    Attributes:
        nodes: the node at each position, `[N]`.
        part_ptr: the position where each subgraph begins, `[K + 1]`.
        bounds: the position where each rank's range begins, `[R + 1]`.
    """

    nodes: Tensor
    part_ptr: Tensor
    bounds: Tensor

    @classmethod
    def of(cls, graph: Graph, part: Partition, num_ranks: int) -> NodeOrder:
        """Subgraphs assigned to `num_ranks` processes in contiguous ranges that balance nodes and edges.

        Raises:
            ValueError: when there are fewer subgraphs with nodes than processes.
        """
        parts = order_parts(graph, part)
        sizes = part.ptr.diff()[parts]
        nodes = torch.cat([part.order[part.ptr[each] : part.ptr[each + 1]] for each in parts.tolist()])
        ends = torch.bincount(part.labels[graph.dst], minlength=part.num_parts)[parts]
        part_ptr = pointers(sizes)
        return cls(nodes, part_ptr, part_ptr[split_evenly(sizes, ends, num_ranks)])

    @property
    def num_ranks(self) -> int:
        return self.bounds.numel() - 1

    def with_virtual(self, num_virtual: int) -> NodeOrder:
        """The same with virtual nodes after all others; the last rank owns them."""
        if not num_virtual:
            return self
        first = self.nodes.numel()
        bounds = self.bounds.clone()
        bounds[-1] += num_virtual
        return NodeOrder(torch.cat([self.nodes, torch.arange(first, first + num_virtual)]), self.part_ptr, bounds)


def order_parts(graph: Graph, part: Partition) -> Tensor:
    """The subgraphs in an order in which those with many edges between them are near each other, `[K]`.

    A rank owns a contiguous range of them, so that fewer edges run between ranks, however many ranks there are. Up to
    `DENSE_PARTS` subgraphs the order is that of the Fiedler vector of their graph, beyond it reverse Cuthill-McKee's.
    Empty subgraphs come where they fall.
    """
    from scipy.sparse import coo_matrix, diags
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    if part.num_parts < 3:
        return torch.arange(part.num_parts)
    rows, columns = part.labels[graph.src].numpy(), part.labels[graph.dst].numpy()
    crossing = rows != columns
    shape = (part.num_parts, part.num_parts)
    one_way = coo_matrix((np.ones(int(crossing.sum())), (rows[crossing], columns[crossing])), shape).tocsr()
    between = one_way + one_way.T
    if part.num_parts > DENSE_PARTS:
        return torch.from_numpy(reverse_cuthill_mckee(between, symmetric_mode=True).astype(np.int64))
    laplacian = (diags(np.asarray(between.sum(1)).ravel()) - between).toarray()
    vector = np.linalg.eigh(laplacian)[1][:, 1]
    sign = 1 if vector[np.argmax(np.abs(vector))] > 0 else -1  # an eigenvector's sign is the library's whim
    return torch.from_numpy(np.argsort(sign * vector, kind="stable"))


def split_evenly(sizes: Tensor, edges: Tensor, num_ranks: int) -> Tensor:
    """Where each rank's range of subgraphs begins, `[R + 1]`, so that the heaviest range is as light as can be.

    A subgraph weighs its share of the nodes plus its share of the edges.

    Args:
        sizes: nodes of each subgraph, `[K]`.
        edges: edges into each subgraph, `[K]`.
        num_ranks: number of ranges R; each has at least one node.

    Raises:
        ValueError: when there are fewer subgraphs with nodes than ranges.

    >>> split_evenly(torch.tensor([2, 2, 2, 6]), torch.tensor([4, 4, 4, 12]), 2).tolist()
    [0, 3, 4]
    """
    filled = int((sizes > 0).sum())
    if num_ranks > filled:
        raise ValueError(f"There must be at least one subgraph per process: at least {num_ranks}. Got {filled}.")
    weight = sizes / max(1, int(sizes.sum())) + edges / max(1, int(edges.sum()))
    total = torch.cat([weight.new_zeros(1), weight.double().cumsum(0)])
    low, high = float(total[-1]) / num_ranks, float(total[-1])
    for _ in range(50):  # the smallest limit that every range can keep, by bisection
        limit = (low + high) / 2
        if _ranges(total, sizes, num_ranks, limit)[-1] == len(sizes):
            high = limit
        else:
            low = limit
    return torch.tensor(_ranges(total, sizes, num_ranks, high))


def _ranges(total: Tensor, sizes: Tensor, num_ranks: int, limit: float) -> list[int]:
    """Ranges filled one after the other up to `limit`, each leaving a subgraph with nodes for those that follow."""
    filled_after = [*(sizes > 0).flip(0).cumsum(0).flip(0).tolist(), 0]  # from each subgraph on
    bounds = [0]
    for rank in range(num_ranks):
        start = bounds[-1]
        reach = float(total[start]) + limit
        end = int(torch.searchsorted(total, torch.tensor(reach * (1 + 1e-12), dtype=total.dtype), right=True)) - 1
        end = max(end, start)
        while end > start and filled_after[end] < num_ranks - 1 - rank:
            end -= 1
        bounds.append(end)
    return bounds
