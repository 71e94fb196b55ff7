"""Quotient: a large graph seen as its subgraphs and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gpnn.graph import Graph
from gpnn.report.answers import Total

MAX_PARTS = 400
PIECE = 1 << 22  # edges at a time: the graph may be large


@dataclass(frozen=True, eq=False)
class Quotient:
    """The largest subgraphs of a graph.

    Attributes:
        num_nodes: nodes of the whole graph.
        num_parts: its subgraphs.
        shown: which subgraphs these are, rising, `[k]`.
        sizes: nodes of each, `[k]`.
        between: edges from each to each, `[k, k]`.
        given: nodes of each that were given each class, `[k, C]`.
    """

    num_nodes: int
    num_parts: int
    shown: np.ndarray
    sizes: np.ndarray
    between: np.ndarray
    given: np.ndarray


def draw_together(
    graph: Graph, parts: Tensor, likely: Tensor, num_parts: int, total: Total = lambda counts: counts
) -> Quotient:
    """The quotient graph of at most 400 subgraphs, the largest.

    Args:
        graph: rows that this process owns, then rows that send to them; every edge is in one process.
        parts: the subgraph of each row, `[n + h]`.
        likely: probability of each class for each own row, `[n, C]`.
        num_parts: number of subgraphs of the whole graph.
        total: sums counts over all processes; as it stands: this one has the whole graph.
    """
    own, num_classes = parts[: len(likely)], likely.shape[1]
    sizes = total(torch.bincount(own, minlength=num_parts))
    shown = sizes.argsort(descending=True, stable=True)[:MAX_PARTS].sort().values
    size = len(shown)
    place = torch.full((num_parts,), size)  # the others share one place more
    place[shown] = torch.arange(size)
    between = torch.zeros((size + 1) ** 2, dtype=torch.int64)
    for first in range(0, graph.num_edges, PIECE):
        src, dst = (place[parts[ends[first : first + PIECE]]] for ends in (graph.src, graph.dst))
        between += torch.bincount(src * (size + 1) + dst, minlength=(size + 1) ** 2)
    pairs = place[own] * num_classes + likely.argmax(1)
    given = total(torch.bincount(pairs, minlength=(size + 1) * num_classes)).view(size + 1, num_classes)
    between = total(between).view(size + 1, size + 1)
    arrays = (shown, sizes[shown], between[:size, :size], given[:size])
    return Quotient(int(sizes.sum()), num_parts, *(array.numpy() for array in arrays))
