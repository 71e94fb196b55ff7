"""Equal edges: which they are, and what becomes of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gpnn.graph.graph import Graph


def distinct_edges(graph: Graph) -> tuple[Tensor, Tensor]:
    """An order that puts equal edges together, and the positions in it where a new edge begins."""
    import numpy as np

    keys = [graph.dst.numpy(), graph.src.numpy()]
    if graph.edge_type is not None:
        keys.insert(0, graph.edge_type.numpy())
    order = torch.from_numpy(np.lexsort(keys))
    new = torch.ones(graph.num_edges, dtype=torch.bool)
    if graph.num_edges:
        columns = [graph.src, graph.dst] + ([graph.edge_type] if graph.edge_type is not None else [])
        new[1:] = torch.stack([values[order].diff() != 0 for values in columns]).any(0)
    return order, new.nonzero().flatten()


def reduce_equal(values: Tensor, first: Tensor, reduce: str) -> Tensor:
    """The values of equal edges reduced to one, given in the order of :func:`distinct_edges`."""
    if not values.numel():
        return values
    lengths = torch.diff(first, append=torch.tensor([values.numel()]))
    return torch.segment_reduce(values, reduce, lengths=lengths)


def twice(values: Tensor | None) -> Tensor | None:
    """The values of every edge, then again those of every reverse."""
    return None if values is None else torch.cat([values, values])
