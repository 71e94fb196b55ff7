"""What a converted graph holds, from headers and samples: nothing of its size is read."""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from gpnn.build.describe import describe_choices, describe_labels
from gpnn.config import Config
from gpnn.data.features import slice_rows
from gpnn.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

SAMPLE_ROWS, SAMPLE_EDGES = 64, 4096  # in each of 256 ranges


def describe_stored(config: Config, data: Data) -> dict[str, Any]:
    """What :func:`describe_data` gives, of a converted graph: from headers, nodes, and samples of edges and features.

    Args:
        config: the settings to choose by.
        data: the graph, with `graph` over mapped rows.
    """
    graph, rows = data.graph, data.graph.rows
    degree = graph.in_degree
    found: dict[str, Any] = {"nodes": graph.num_nodes, "edges": graph.num_edges}
    if graph.edge_type is not None:
        found["edge types"] = len(data.edge_type_names)
    found |= {
        "weighted": graph.edge_weight is not None,
        "symmetric": rows.symmetric,
        "nodes without an edge into them": int((degree == 0).sum()),
        "most edges into a node": int(degree.max()),
    }
    sampled = copy(data)
    if data.get("x") is not None:
        first, last = _spaced(len(data.x), SAMPLE_ROWS)
        sampled.x = torch.cat([slice_rows(data.x, slice(a, b)).to_dense() for a, b in zip(first, last)])
        found |= {"features": data.x.shape[1], "type of the features": str(data.x.dtype).removeprefix("torch.")}
        found["share of non-zeros (sample)"] = float((sampled.x != 0).float().mean())
    if data.get("y") is not None:
        found |= {
            f"{name}{_sampled(name)}": value for name, value in describe_labels(data, _sample_edges(graph)).items()
        }
    return found | {"GPNN would choose": describe_choices(config, sampled)}


def _sampled(name: str) -> str:
    return " (sample)" if name.startswith(("homophily", "correlation")) else ""


def _sample_edges(graph: Graph) -> Graph:
    """The same nodes with evenly spaced edges."""
    assert graph.rows is not None
    edges = torch.cat([torch.arange(a, b) for a, b in zip(*_spaced(graph.num_edges, SAMPLE_EDGES))])
    receivers = torch.searchsorted(graph.rows.ptr, edges, right=True) - 1
    return Graph(graph.rows.col[edges].long(), receivers, graph.num_nodes)


def _spaced(length: int, each: int) -> tuple[list[int], list[int]]:
    """Where 256 evenly spaced ranges of at most `each` begin and end."""
    bounds = torch.linspace(0, length, 257, dtype=torch.float64).long().tolist()
    return bounds[:-1], [min(end, start + each) for start, end in pairwise(bounds)]
