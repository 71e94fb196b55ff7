"""Change: the nodes and edges that come, change and go at one time, by the user's ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges by the ids of their ends.

    Attributes:
        source, target: ids, `[e]`.
        edge_type: the number of each edge's type, `[e]`, or None.
        weight: the weight of each, `[e]`, or None.
    """

    source: Sequence[str] = ()
    target: Sequence[str] = ()
    edge_type: np.ndarray | None = None
    weight: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Change:
    """What changes in a graph at one time: first nodes and edges go, then nodes come or get other features, then edges.

    Attributes:
        nodes: ids of nodes that are new or have new features, distinct.
        x: their features, dense or sparse, `[n, F]`, or None where the graph has none.
        edges: new edges.
        removed_nodes: ids of nodes that go, with all their edges.
        removed_edges: edges that go: all from a source to a target, or those of a type where types are given.
    """

    nodes: Sequence[str] = ()
    x: Tensor | None = None
    edges: EdgeList = field(default_factory=EdgeList)
    removed_nodes: Sequence[str] = ()
    removed_edges: EdgeList = field(default_factory=EdgeList)
