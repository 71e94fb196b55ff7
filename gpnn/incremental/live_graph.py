"""LiveGraph: a graph by the user's ids, with features and subgraphs, to which changes are applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import DIRECTIONS, TYPED, Undirected
from gpnn.graph import Graph
from gpnn.incremental.change import Change, EdgeList
from gpnn.incremental.dynamic_graph import DynamicGraph, Edges
from gpnn.incremental.rows import FeatureStore, NodeSlots, distinct, enlarge
from gpnn.partition import Partition
from gpnn.partition.neighbours import extend
from gpnn.storage.read import shorten


class LiveGraph:
    """Nodes and edges that come and go, their features and the subgraphs that the nodes are in.

    Nodes that were trained on keep the subgraph that they had, also when they go and come back; others join one as
    :func:`gpnn.partition.neighbours.extend` has it.

    Args:
        graph: the graph to begin with.
        x: its features, dense or sparse, `[N, F]`, or None.
        ids: the id of each node, distinct, as text.
        known: the place of each node among those trained on, -1: none, `[N]`; None: node i is the i-th.
        labels: the subgraph of each node trained on, or None under a schedule that needs no partition.
        undirected: whether edges come and go both ways, and each distinct one is there once; "typed": the reverse of an
            edge of type c has type C + c, and is there as often as the edge; "directions": the same, where the types
            of the user's edges count as one.

    Attributes:
        edges: the graph over slots.
        slots: the slot of each id.
        known: the place of each slot's node among those trained on, -1: none, `[S]`.
    """

    def __init__(
        self,
        graph: Graph,
        x: Tensor | None,
        ids: Sequence[str],
        *,
        known: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        undirected: Undirected = False,
    ) -> None:
        self.slots, self.undirected = NodeSlots(ids), undirected
        self.known = np.arange(graph.num_nodes) if known is None else known
        self.num_parts = 1 if labels is None else int(labels.max()) + 1
        self.trained = None if labels is None else np.append(labels, -1)  # the last: of nodes not trained on
        parts = None
        if self.trained is not None:
            parts = extend(graph, self.trained[self.known], self.num_parts).labels.numpy()
        self.edges = DynamicGraph(graph, parts)
        self.features = None if x is None else FeatureStore(x)
        self._absent: dict[str, int] = {}  # place among those trained on of nodes that went

    def take_features(self, slots: np.ndarray) -> Tensor | None:
        """The features of some nodes, `[n, F]`, or None where the graph has none."""
        return None if self.features is None else self.features.take(slots)

    def partition(self, slots: np.ndarray) -> Partition | None:
        """The subgraphs of some nodes, or None where there are none."""
        if self.trained is None:
            return None
        return Partition(torch.from_numpy(self.edges.labels[slots].astype(np.int64)), self.num_parts)

    def apply(self, change: Change, *, symmetric: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Apply a change.

        Args:
            change: what comes and goes.
            symmetric: whether the weight of a message also follows from the degree of its sender.

        Returns:
            The slots of nodes that are new or have new features, and of nodes that receive other messages than before,
            of another weight, or in other phases.

        Raises:
            ValueError: when the change does not suit the graph, which then stays as it was.
        """
        self.check(change)
        touched = [self._remove_edges(change.removed_edges), self._remove_nodes(change.removed_nodes)]
        given = self._add_nodes(change)
        touched += [given, self._add_edges(change.edges)]
        concerned = distinct(*touched)
        concerned = concerned[self.edges.alive[concerned]]
        moved = self._relabel(concerned)
        concerned = distinct(concerned, moved, self.edges.neighbours(moved))
        self.edges.refresh(concerned)
        if symmetric:
            concerned = distinct(concerned, self.edges.edges_from(concerned).dst)
        return given, concerned

    def check(self, change: Change) -> None:
        """Raise ValueError where the change does not suit the graph."""
        gone, nodes = set(change.removed_nodes), set(change.nodes)
        self.slots.find(gone, "removed_nodes")
        if len(nodes) < len(change.nodes):
            raise ValueError(f"`nodes` must name each node once. Got {len(change.nodes)} rows of {len(nodes)} nodes.")
        ends = (*change.edges.source, *change.edges.target)
        if unknown := {end for end in set(ends) - nodes if end in gone or end not in self.slots}:
            first = shorten(next(end for end in ends if end in unknown))
            raise ValueError(f"`edges` must join nodes of the graph or of `nodes`. Got {first}.")
        left = len(self.slots) - len(gone) + sum(1 for each in nodes if each in gone or each not in self.slots)
        if not left:
            raise ValueError("A graph must keep at least one node. Got all of them in `removed_nodes`.")
        self._check_features(change)
        self._check_values("edges", change.edges)
        self._check_removed(change.removed_edges)

    def _check_features(self, change: Change) -> None:
        width = 0 if self.features is None else self.features.num_columns
        shape = (len(change.nodes), 0) if change.x is None else tuple(change.x.shape)
        if change.nodes and shape != (len(change.nodes), width):
            wanted = [len(change.nodes), width]
            raise ValueError(f"The features of `nodes` must have shape {wanted}. Got {list(shape)}.")
        if change.x is not None:
            values = change.x if change.x.layout == torch.strided else change.x.values()
            if not bool(values.isfinite().all()):
                raise ValueError("The features of `nodes` must be finite numbers. Got one that is not.")

    @property
    def _num_types(self) -> int:
        """How many types the user's edges have."""
        return self.edges.num_edge_types // 2 if self._reverses_have_types else self.edges.num_edge_types

    @property
    def _reverses_have_types(self) -> bool:
        return self.undirected in (TYPED, DIRECTIONS)

    def _check_values(self, name: str, edges: EdgeList) -> None:
        typed = self.edges.typed and (not self._reverses_have_types or self._num_types > 1)
        edges = self._as_told_apart(edges)
        for what, values, has in (("type", edges.edge_type, typed), ("weight", edges.weight, self.edges.weighted)):
            if len(edges.source) and has != (values is not None):
                wanted, got = (f"{what}s", "none") if has else (f"no {what}s", f"{what}s")
                raise ValueError(f"`{name}` must have {wanted}, as the graph's edges have. Got {got}.")
        if edges.edge_type is not None and len(edges.edge_type):
            most = int(edges.edge_type.max())
            if most >= self._num_types or edges.edge_type.min() < 0:
                raise ValueError(f"A type of `{name}` must lie from 0 to {self._num_types - 1}. Got {most}.")
        if edges.weight is not None and not np.isfinite(edges.weight).all():
            raise ValueError(f"A weight of `{name}` must be a finite number. Got one that is not.")

    def _as_told_apart(self, edges: EdgeList) -> EdgeList:
        """The edges without their types, where these count as one."""
        return replace(edges, edge_type=None) if self.undirected == DIRECTIONS else edges

    def _check_removed(self, edges: EdgeList) -> None:
        if self.undirected == DIRECTIONS and edges.edge_type is not None and len(edges.source):
            raise ValueError("`removed_edges` must have no types where a model takes all types as one. Got types.")
        gone = self._by_slot(edges, "removed_edges")
        present = self.edges.edges_into(distinct(gone.dst))
        if self._reverses_have_types and present.edge_type is not None:
            present = present.select(present.edge_type < self._num_types)
        if gone.edge_type is None:
            present = present._replace(edge_type=None)
        missing = ~np.isin(self.edges.key(gone), self.edges.key(present))
        if missing.any():
            place = int(missing.argmax())
            ends = f"{shorten(edges.source[place])} → {shorten(edges.target[place])}"
            raise ValueError(f"`removed_edges` must name edges of the graph. Got {ends}, which is not one.")

    def _both_ways(self, edges: Edges) -> Edges:
        """The edges as the graph has them: with their reverses, where it has these."""
        if not self.undirected:
            return edges
        if not self._reverses_have_types:
            return edges.both_ways()
        types = np.zeros(len(edges.src), np.int64) if edges.edge_type is None else edges.edge_type
        return edges.both_ways()._replace(edge_type=np.concatenate([types, types + self._num_types]))

    def _by_slot(self, edges: EdgeList, what: str) -> Edges:
        src, dst = (self.slots.find(each, what) for each in (edges.source, edges.target))
        return Edges(src, dst, self._as_told_apart(edges).edge_type, edges.weight)

    def _remove_edges(self, edges: EdgeList) -> np.ndarray:
        """The ends of what is removed."""
        gone = self._by_slot(edges, "removed_edges")
        if self._reverses_have_types and gone.edge_type is None:  # of every type
            number, types = len(gone.src), np.repeat(np.arange(self._num_types), len(gone.src))
            gone = gone.select(np.tile(np.arange(number), self._num_types))._replace(edge_type=types)
        gone = self._both_ways(gone)
        self.edges.remove(gone)
        return np.concatenate([gone.src, gone.dst])

    def _remove_nodes(self, nodes: Sequence[str]) -> np.ndarray:
        """The neighbours of what is removed."""
        nodes = list(dict.fromkeys(nodes))
        gone = self.slots.find(nodes, "removed_nodes")
        into, out = self.edges.edges_into(gone), self.edges.edges_from(gone)
        self.edges.remove(Edges(np.concatenate([into.src, out.src]), np.concatenate([into.dst, out.dst])))
        self.edges.alive[gone] = False
        self._absent |= {node: place for node, place in zip(nodes, self.known[gone].tolist()) if place >= 0}
        self.slots.remove(nodes)
        return np.concatenate([into.src, out.dst])

    def _add_nodes(self, change: Change) -> np.ndarray:
        """The slots of nodes that are new or have new features."""
        new = [node for node in change.nodes if node not in self.slots]
        slots = self.slots.add(new)
        self.edges.enlarge(len(self.slots.ids))
        self.edges.alive[slots] = True
        self.known = enlarge(self.known, self.edges.num_slots)
        self.known[slots] = [self._absent.pop(node, -1) for node in new]
        self.edges.labels[slots] = 0 if self.trained is None else self.trained[self.known[slots]]
        given = self.slots.find(change.nodes, "nodes")
        if self.features is not None and change.x is not None:
            self.features.set(given, change.x)
        return given

    def _add_edges(self, edges: EdgeList) -> np.ndarray:
        """The ends of what is added."""
        new = self._both_ways(self._by_slot(edges, "edges"))
        if self.undirected and not self._reverses_have_types:
            first = np.unique(self.edges.key(new), return_index=True)[1]
            new = new.select(np.sort(first))
            present = self.edges.edges_into(distinct(new.dst))
            new = new.select(~np.isin(self.edges.key(new), self.edges.key(present)))
        self.edges.add(new)
        return np.concatenate([new.src, new.dst])

    def _relabel(self, concerned: np.ndarray) -> np.ndarray:
        """Let the nodes that were not trained on, and are linked with these by such ones, join subgraphs anew.

        Returns:
            The slots of nodes whose subgraph is another.
        """
        if self.trained is None:
            return concerned[:0]
        free = self._linked(concerned[self.known[concerned] < 0])
        if not len(free):
            return free
        into, out = self.edges.edges_into(free), self.edges.edges_from(free)
        nodes = distinct(free, into.src, out.dst)
        leaves = self.known[out.dst] >= 0
        src, dst = np.append(into.src, out.src[leaves]), np.append(into.dst, out.dst[leaves])
        labels = self.edges.labels[nodes].astype(np.int64)
        labels[self.known[nodes] < 0] = -1
        senders, receivers = (torch.from_numpy(np.searchsorted(nodes, each)) for each in (src, dst))
        local = Graph(senders, receivers, len(nodes))
        joined = extend(local, labels, self.num_parts).labels.numpy()[np.searchsorted(nodes, free)]
        moved = joined != self.edges.labels[free]
        self.edges.labels[free] = joined
        return free[moved]

    def _linked(self, nodes: np.ndarray) -> np.ndarray:
        """Nodes that were not trained on, and all such that they are linked with by such."""
        found = fresh = nodes
        while len(fresh):
            near = self.edges.neighbours(fresh)
            fresh = np.setdiff1d(near[self.known[near] < 0], found)
            found = distinct(found, fresh)
        return found
