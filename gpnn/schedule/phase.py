"""Phase: one synchronous propagation over part of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gpnn.graph import Graph


@dataclass(frozen=True, eq=False)
class Phase:
    """SyncProp (Algorithm 1 of the paper) over `edges`, writing `nodes`, `repeat` times.

    Every node of `nodes` updates, also one that no edge of the phase reaches. Blocks, where there are any, do
    not touch each other: an edge of block b runs between nodes of block b.

    Attributes:
        edges: ids of the edges that carry a message, int64, `[e]`, sorted by block.
        nodes: ids of the nodes that update, int64, distinct, `[n]`, sorted by block.
        repeat: how often the step is done, at least once.
        kind: what the phase is for: "all", "inside", "cut", "level", ….
        edge_ptr: block b owns `edges[edge_ptr[b]:edge_ptr[b + 1]]`, int64, `[B + 1]`, or None: one block.
        node_ptr: likewise for `nodes`.
    """

    edges: Tensor
    nodes: Tensor
    repeat: int = 1
    kind: str = "all"
    edge_ptr: Tensor | None = None
    node_ptr: Tensor | None = None

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise ValueError(f"`repeat` must be at least 1. Got {self.repeat}.")
        if (self.edge_ptr is None) != (self.node_ptr is None):
            raise ValueError("A phase with blocks needs both `edge_ptr` and `node_ptr`. Got one of them.")
        for name, ptr, length in self._pointers():
            if int(ptr[0]) != 0 or int(ptr[-1]) != length or bool((ptr.diff() < 0).any()):
                raise ValueError(f"`{name}` must rise from 0 to {length}. Got {ptr.tolist()[:8]}.")

    @property
    def num_blocks(self) -> int:
        return 1 if self.edge_ptr is None else self.edge_ptr.numel() - 1

    @property
    def num_messages(self) -> int:
        """Messages sent: the edges, once a repeat."""
        return self.repeat * self.edges.numel()

    @property
    def num_updates(self) -> int:
        """Node updates done: the nodes, once a repeat."""
        return self.repeat * self.nodes.numel()

    def blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The (edges, nodes) of each block."""
        if self.edge_ptr is None or self.node_ptr is None:
            yield self.edges, self.nodes
            return
        edges, nodes = self.edge_ptr.tolist(), self.node_ptr.tolist()
        for block in range(self.num_blocks):
            yield self.edges[edges[block] : edges[block + 1]], self.nodes[nodes[block] : nodes[block + 1]]

    def check(self, graph: Graph) -> None:
        """Raise ValueError unless the phase fits `graph`: its ids exist, receivers update, blocks are apart."""
        _check_ids("edges", self.edges, graph.num_edges)
        _check_ids("nodes", self.nodes, graph.num_nodes)
        owner = torch.full((graph.num_nodes,), -1, dtype=torch.int64)
        owner[self.nodes] = self._owners(self.node_ptr, self.nodes.numel())
        if int((owner >= 0).sum()) != self.nodes.numel():
            raise ValueError("The nodes of a phase must be distinct. Got some twice.")
        source, target = owner[graph.src[self.edges]], owner[graph.dst[self.edges]]
        if bool((target < 0).any()):
            node = int(graph.dst[self.edges[(target < 0).nonzero()[0, 0]]])
            raise ValueError(f"Every receiver of a phase must be among its nodes. Node {node} is not.")
        if self.edge_ptr is not None:
            block = self._owners(self.edge_ptr, self.edges.numel())
            crossing = ((source != block) | (target != block)).nonzero()
            if len(crossing):
                edge = int(self.edges[crossing[0, 0]])
                raise ValueError(f"No edge of a phase may cross its blocks. Edge {edge} does.")

    def _pointers(self) -> Iterator[tuple[str, Tensor, int]]:
        if self.edge_ptr is not None and self.node_ptr is not None:
            yield "edge_ptr", self.edge_ptr, self.edges.numel()
            yield "node_ptr", self.node_ptr, self.nodes.numel()

    @staticmethod
    def _owners(ptr: Tensor | None, length: int) -> Tensor:
        """Block of each position, `[length]`."""
        if ptr is None:
            return torch.zeros(length, dtype=torch.int64)
        return torch.repeat_interleave(torch.arange(ptr.numel() - 1), ptr.diff())


def _check_ids(name: str, ids: Tensor, bound: int) -> None:
    if ids.dtype != torch.int64 or ids.dim() != 1:
        raise ValueError(f"`{name}` must be a one-dimensional int64 tensor. Got {ids.dtype}, {list(ids.shape)}.")
    if ids.numel():
        low, high = (int(value) for value in torch.aminmax(ids))
        if low < 0 or high >= bound:
            raise ValueError(f"`{name}` must lie from 0 to {bound - 1}. Got {low if low < 0 else high}.")
