"""Virtual nodes: shared memory that its members write to and read from at the end of each round."""

from __future__ import annotations

import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.graph import Graph
from gpnn.schedule.phase import Phase


def add_virtual(graph: Graph, order: Tensor, ptr: Tensor | None) -> tuple[Graph, tuple[Phase, Phase]]:
    """The graph with virtual nodes after its own, and the phases that write to and read from them.

    The edges to and from a virtual node have two types of their own, numbered after the graph's (an untyped
    graph's edges become type 0), and weight 1 where the graph has weights.

    Args:
        graph: N nodes, E edges.
        order: the nodes grouped by subgraph, `[N]`.
        ptr: where each subgraph begins in `order`, `[K + 1]`: one virtual node for each that is not empty,
            and block k of both phases is subgraph k. None: one virtual node for the whole graph, no blocks.
    """
    sizes = torch.tensor([graph.num_nodes]) if ptr is None else ptr.diff()
    filled = (sizes > 0).long()  # [K]
    memory = torch.repeat_interleave(graph.num_nodes + filled.cumsum(0) - filled, sizes)  # [N] along `order`
    num_virtual = int(filled.sum())
    augmented = _augment(graph, order, memory, num_virtual)
    first = graph.num_edges
    writes = torch.arange(first, first + graph.num_nodes)
    reads = writes + graph.num_nodes
    virtual = torch.arange(graph.num_nodes, graph.num_nodes + num_virtual)
    virtual_ptr = None if ptr is None else pointers(filled)
    gather = Phase(writes, virtual, 1, "gather", ptr, virtual_ptr)
    return augmented, (gather, Phase(reads, order, 1, "scatter", ptr, ptr))


def _augment(graph: Graph, order: Tensor, memory: Tensor, num_virtual: int) -> Graph:
    num_types, size = graph.num_edge_types, graph.num_nodes
    old_type = torch.zeros(graph.num_edges, dtype=torch.int64) if graph.edge_type is None else graph.edge_type
    new_type = torch.tensor([num_types, num_types + 1]).repeat_interleave(size)
    weight = graph.edge_weight
    return Graph(
        torch.cat([graph.src, order, memory]),
        torch.cat([graph.dst, memory, order]),
        size + num_virtual,
        torch.cat([old_type, new_type]),
        None if weight is None else torch.cat([weight, weight.new_ones(2 * size)]),
    )
