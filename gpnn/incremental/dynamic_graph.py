"""DynamicGraph: a graph whose edges and nodes come and go, with what normalisation and schedules need of each node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from gpnn.graph import Graph
from gpnn.incremental.ragged import RaggedRows, enlarge


class Edges(NamedTuple):
    """Some edges.

    Attributes:
        src: senders, `[e]`.
        dst: receivers, `[e]`.
        edge_type: types, `[e]`, or None.
        weight: weights, `[e]`, or None.
    """

    src: np.ndarray
    dst: np.ndarray
    edge_type: np.ndarray | None = None
    weight: np.ndarray | None = None

    def select(self, chosen: np.ndarray) -> Edges:
        return Edges(*(None if each is None else each[chosen] for each in self))  # type: ignore[arg-type]

    def both_ways(self) -> Edges:
        """Every edge, and after them all their reverses."""
        rest = (None if each is None else np.concatenate([each, each]) for each in self[2:])
        return Edges(np.concatenate([self.src, self.dst]), np.concatenate([self.dst, self.src]), *rest)


class DynamicGraph:
    """A directed typed multigraph over slots, each of which holds a node or is free.

    Args:
        graph: the graph to begin with: slot i holds node i.
        labels: the subgraph of each node, `[N]`; None: all are in one.

    Attributes:
        alive: which slots hold a node, `[S]`.
        labels: the subgraph of each node, `[S]`.
        inside, cut: the sum of |weight| over edges into a node from its own subgraph, and from others, float64 `[S]`.
        receives_inside, receives_cut, at_cut: which nodes have an edge from their own subgraph, from another, and an
            edge from or to another, `[S]`.
    """

    def __init__(self, graph: Graph, labels: np.ndarray | None = None) -> None:
        size = graph.num_nodes
        self.alive = np.ones(size, bool)
        self.labels = np.zeros(size, np.int32) if labels is None else labels.astype(np.int32)
        self.typed, self.weighted = graph.edge_type is not None, graph.edge_weight is not None
        self.num_edge_types = graph.num_edge_types
        incoming, outgoing = (
            graph.in_edges(with_edge=self.typed or self.weighted),
            graph.out_edges(with_edge=self.typed),
        )
        values = [each.numpy()[incoming.edge] for each in (graph.edge_type, graph.edge_weight) if each is not None]
        types = [] if graph.edge_type is None else [graph.edge_type.numpy()[outgoing.edge]]
        self.incoming = RaggedRows(incoming.ptr, incoming.index.astype(np.int32, copy=False), *values)
        self.outgoing = RaggedRows(outgoing.ptr, outgoing.index.astype(np.int32, copy=False), *types)
        self.inside, self.cut = np.zeros((2, size))
        self.receives_inside, self.receives_cut, self.at_cut = np.zeros((3, size), bool)
        self.refresh(np.arange(size))

    @property
    def num_slots(self) -> int:
        return len(self.alive)

    def edges_into(self, nodes: np.ndarray) -> Edges:
        """The edges into some nodes, grouped by these."""
        counts, (src, *values) = self.incoming.gather(nodes)
        edge_type = values.pop(0) if self.typed else None
        return Edges(src, np.repeat(nodes, counts), edge_type, values[0] if values else None)

    def edges_from(self, nodes: np.ndarray) -> Edges:
        """The edges out of some nodes, grouped by these, without weights."""
        counts, (dst, *values) = self.outgoing.gather(nodes)
        return Edges(np.repeat(nodes, counts), dst, values[0] if values else None)

    def neighbours(self, nodes: np.ndarray) -> np.ndarray:
        """What is joined to one of the nodes, either way, distinct."""
        return np.unique(np.concatenate([self.edges_into(nodes).src, self.edges_from(nodes).dst]))

    def enlarge(self, num_slots: int) -> None:
        """Have at least so many slots; new ones are free."""
        for name in ("alive", "labels", "inside", "cut", "receives_inside", "receives_cut", "at_cut"):
            setattr(self, name, enlarge(getattr(self, name), num_slots))
        self.incoming.enlarge(num_slots)
        self.outgoing.enlarge(num_slots)

    def key(self, edges: Edges) -> np.ndarray:
        """A number for the ends and the type of each edge, `[e]`."""
        ends = edges.src.astype(np.int64) * self.num_slots + edges.dst
        return ends if edges.edge_type is None else ends * self.num_edge_types + edges.edge_type

    def remove(self, gone: Edges) -> None:
        """Remove all edges between these ends; of a type alone where `gone` has types."""
        keys = np.unique(self.key(gone))

        def keep(edges: Edges) -> np.ndarray:
            return ~np.isin(self.key(edges if gone.edge_type is not None else edges._replace(edge_type=None)), keys)

        receivers, senders = np.unique(gone.dst), np.unique(gone.src)
        incoming, outgoing = self.edges_into(receivers), self.edges_from(senders)
        self._write_in(receivers, incoming.select(keep(incoming)))
        self._write_out(senders, outgoing.select(keep(outgoing)))

    def add(self, new: Edges) -> None:
        """Add edges, with type 0 and weight 1 where the graph has types or weights and they have none."""
        if self.typed and new.edge_type is None:
            new = new._replace(edge_type=np.zeros(len(new.src), np.int64))
        if self.weighted and new.weight is None:
            new = new._replace(weight=np.ones(len(new.src), np.float32))
        receivers, senders = np.unique(new.dst), np.unique(new.src)
        self._write_in(receivers, _join(self.edges_into(receivers), new))
        self._write_out(senders, _join(self.edges_from(senders), new))

    def refresh(self, nodes: np.ndarray) -> None:
        """Bring what follows from the edges and labels of these nodes, distinct `[n]`, up to date."""
        counts, (src, *values) = self.incoming.gather(nodes)
        row, number = np.repeat(np.arange(len(nodes)), counts), len(nodes)
        weight = np.abs(values[-1]).astype(np.float64) if self.weighted else None
        crosses = self.labels[src] != self.labels[nodes][row]
        sums = np.bincount(row * 2 + crosses, weight, 2 * number).reshape(-1, 2)
        found = sums if weight is None else np.bincount(row * 2 + crosses, None, 2 * number).reshape(-1, 2)
        self.inside[nodes], self.cut[nodes] = sums.T
        self.receives_inside[nodes], self.receives_cut[nodes] = (found > 0).T
        counts, (dst, *_) = self.outgoing.gather(nodes)
        row = np.repeat(np.arange(number), counts)
        sends = np.bincount(row[self.labels[dst] != self.labels[nodes][row]], None, number) > 0
        self.at_cut[nodes] = self.receives_cut[nodes] | sends

    def to_graph(self, slots: np.ndarray) -> Graph:
        """The graph of all nodes, given their slots, in that order."""
        place = np.full(self.num_slots, -1)
        place[slots] = np.arange(len(slots))
        src, dst, *values = self.edges_into(slots)
        kept = (None if each is None else torch.from_numpy(each) for each in values)
        return Graph(torch.from_numpy(place[src]), torch.from_numpy(place[dst]), len(slots), *kept)

    def _write_in(self, nodes: np.ndarray, edges: Edges) -> None:
        columns = [edges.src, *([edges.edge_type] if self.typed else []), *([edges.weight] if self.weighted else [])]
        _write(self.incoming, nodes, edges.dst, columns)

    def _write_out(self, nodes: np.ndarray, edges: Edges) -> None:
        _write(self.outgoing, nodes, edges.src, [edges.dst, *([edges.edge_type] if self.typed else [])])


def _join(edges: Edges, more: Edges) -> Edges:
    """Both lists; `edges` may lack a column."""
    joined = (None if one is None or other is None else np.concatenate([one, other]) for one, other in zip(edges, more))
    return Edges(*joined)  # type: ignore[arg-type]


def _write(pool: RaggedRows, rows: np.ndarray, owner: np.ndarray, columns: list[np.ndarray | None]) -> None:
    """Make these entries all that the rows, rising, own."""
    order = owner.argsort(kind="stable")
    counts = np.diff(np.append(np.searchsorted(owner[order], rows), len(owner)))
    pool.replace(rows, counts, *(column[order] for column in columns if column is not None))
