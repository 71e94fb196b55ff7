"""Graphs, schedules and cells that the engine's tests share."""

from __future__ import annotations

import torch

import gpnn
from gpnn import Graph
from gpnn.nn import Cell
from gpnn.nn.cell import build_cell
from gpnn.schedule import Schedule

SCHEDULES = ("synchronous", "partitioned", "receivers", "sequential", "spanning_trees", "random_edges", "graph_memory")
SCHEDULES += ("subgraph_memory", "held_cut", "held_memory")


def multigraph(*, weighted: bool = True, num_types: int = 3, seed: int = 0) -> Graph:
    """Ten nodes: typed, weighted parallel edges both ways, self-loops, a node without edges; weights of both signs."""
    random = torch.Generator().manual_seed(seed)
    a = torch.randint(9, (16,), generator=random)
    b = torch.randint(9, (16,), generator=random)
    src, dst = torch.cat([a, b]), torch.cat([b, a])
    kind = torch.randint(num_types, (32,), generator=random) if num_types > 1 else None
    weight = torch.randn(32, generator=random, dtype=torch.float64) if weighted else None
    return Graph(src, dst, 10, kind, weight)


def make_schedule(name: str, graph: Graph, rounds: int = 2) -> Schedule:
    """A schedule by name; subgraphs are neither contiguous nor all full."""
    labels = torch.tensor([0, 3, 1, 0, 3, 1, 0, 1, 3, 3])[torch.arange(graph.num_nodes) % 10]
    memory = {"graph_memory": "graph", "subgraph_memory": "subgraph"}.get(name)
    if name in ("partitioned", "receivers") or memory:
        update = "receivers" if name == "receivers" else "members"
        part = gpnn.Partition(labels, 4)  # part 2 is empty
        return gpnn.schedule.partitioned(graph, part, rounds, intra=2, cut=2, update=update, virtual=memory)
    if name.startswith("held"):
        virtual = "subgraph" if name == "held_memory" else None
        intra = 1 if name == "held_once" else 3
        return gpnn.schedule.held_cut(graph, gpnn.Partition(labels, 4), rounds, intra, virtual=virtual)
    return gpnn.schedule.SCHEDULES[name](graph, rounds=rounds)


def make_cell(
    update: str = "gru",
    message: str = "identity",
    aggregate: str = "mean",
    num_edge_types: int = 5,
    width: int = 3,
    **options: object,
) -> Cell:
    """A cell in float64."""
    generator = torch.Generator().manual_seed(1)
    return build_cell(message, update, aggregate, options, width, num_edge_types, generator).double()


def states(num_nodes: int = 10, width: int = 3, seed: int = 2) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(num_nodes, width, generator=random, dtype=torch.float64)


def gradients(cell: torch.nn.Module, out: torch.Tensor | list[torch.Tensor], inputs: list[torch.Tensor]) -> list:
    """Gradients of a fixed function of `out` for the inputs and all parameters; None where unused."""
    outs = out if isinstance(out, list) else [out]
    random = torch.Generator().manual_seed(3)
    loss = sum((o * torch.randn(o.shape, generator=random, dtype=o.dtype)).sum() for o in outs)
    return list(torch.autograd.grad(loss, [*inputs, *cell.parameters()], allow_unused=True))
