"""What a dataset holds, in figures, and the sizes that would be chosen for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.build.objects import resolve
from gpnn.config import Config
from gpnn.data.labels import labelled_nodes
from gpnn.graph import Graph, as_graph

if TYPE_CHECKING:
    from torch_geometric.data import Data


def describe_data(config: Config, data: Data) -> dict[str, Any]:
    """Nodes, edges, features, classes, splits, components and homophily of a graph; K, rounds and width chosen."""
    graph = as_graph(data)
    components = graph.components()
    figures: dict[str, Any] = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "edge types": graph.num_edge_types,
        "self-loops": int((graph.src == graph.dst).sum()),
        "isolated nodes": int(((graph.in_degree == 0) & (graph.out_degree == 0)).sum()),
        "components": int(components.max()) + 1,
        "largest component": int(torch.bincount(components).max()),
        **_features(data.get("x")),
    }
    if data.get("y") is None:
        return figures
    chosen = resolve(config, data)
    return figures | {
        **_labels(data, graph),
        "subgraphs chosen": chosen.partition.k,
        "rounds chosen": chosen.schedule.rounds,
        "hidden channels chosen": chosen.model.hidden_channels,
    }


def _features(x: Tensor | None) -> dict[str, Any]:
    if x is None:
        return {"features": 0}
    values = x if x.layout == torch.strided else x.values()
    filled = int(torch.count_nonzero(values)) / max(1, x.shape[0] * x.shape[1])
    return {"features": x.shape[1], "share of non-zeros": filled}


def _labels(data: Data, graph: Graph) -> dict[str, Any]:
    y, names = data.y, data.get("class_names")
    figures: dict[str, Any] = {"classes": data.num_classes, "labelled nodes": int(labelled_nodes(y).sum())}
    counts = _class_sizes(y, data.num_classes)
    for number, count in enumerate(counts[:20]):
        figures[f"  class {number if names is None else names[number]}"] = count
    if len(counts) > 20:
        figures[f"  the other {len(counts) - 20} classes"] = sum(counts[20:])
    for split in ("train", "val", "test"):
        mask = data.get(f"{split}_mask")
        figures[f"{split} nodes"] = 0 if mask is None else int(mask.sum())
    same = _alike(y, graph)
    figures["homophily (edges within a class)"] = float(same.float().mean()) if same.numel() else None
    return figures


def _class_sizes(y: Tensor, num_classes: int) -> list[int]:
    if y.dim() == 2:
        return (y > 0).sum(0).tolist()
    return torch.bincount(y[y >= 0], minlength=num_classes).tolist()


def _alike(y: Tensor, graph: Graph) -> Tensor:
    """Whether the ends of each edge between two labelled nodes share a class (any of their labels), bool."""
    known = labelled_nodes(y)
    both = known[graph.src] & known[graph.dst] & (graph.src != graph.dst)
    src, dst = graph.src[both], graph.dst[both]
    if y.dim() == 1:
        return y[src] == y[dst]
    same = torch.zeros_like(src, dtype=torch.bool)
    for label in (y > 0).unbind(1):  # a label at a time: [E, C] may be large
        same |= label[src] & label[dst]
    return same
