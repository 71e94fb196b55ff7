"""Phases in the order of their receivers' levels: what the sequential and tree schedules have in common."""

from __future__ import annotations

import numpy as np
import torch

from gpnn.csr import compress
from gpnn.schedule.phase import Phase


def level_phases(edges: np.ndarray, dst: np.ndarray, level: np.ndarray, kind: str) -> tuple[Phase, ...]:
    """One phase a level: the edges into that level's nodes, and the nodes that receive one of them.

    Args:
        edges: ids of the edges to send over, `[e]`.
        dst: receiver of every edge of the graph, `[E]`.
        level: level of every node, `[N]`.
        kind: what the phases are for.
    """
    if not len(edges):
        return ()
    receives = np.zeros(len(level), np.bool_)
    receives[dst[edges]] = True
    nodes = np.flatnonzero(receives)
    num_levels = int(level[nodes].max()) + 1
    edge_ptr, by_level, _ = compress(level[dst[edges]], edges, num_levels, with_edge=False)
    node_ptr, receivers, _ = compress(level[nodes], nodes, num_levels, with_edge=False)
    sorted_edges, sorted_nodes = (torch.from_numpy(ids.astype(np.int64)) for ids in (by_level, receivers))
    return tuple(
        Phase(
            sorted_edges[edge_ptr[k] : edge_ptr[k + 1]],
            sorted_nodes[node_ptr[k] : node_ptr[k + 1]],
            kind=kind,
        )
        for k in range(num_levels)
        if node_ptr[k] < node_ptr[k + 1]
    )
