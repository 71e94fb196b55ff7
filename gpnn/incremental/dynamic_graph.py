"""DynamicGraph: a graph whose edges and nodes come and go, and what a change of it reaches under a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from gpnn.graph import Graph
from gpnn.incremental.rows import RaggedRows, distinct, enlarge
from gpnn.schedule import PhaseSpec, held_cut_phases, partitioned_phases, synchronous_phases

# schedules whose phases follow from the subgraphs of an edge's two ends: what is far from a change does not see it
LOCAL = {"synchronous": synchronous_phases, "partitioned": partitioned_phases, "held_cut": held_cut_phases}
SENDS = {"all": (True, True), "inside": (True, False), "cut": (False, True), "held": (True, True)}  # inside, cut
WIDENED = 2  # times as many rows at most are computed in a step to save it a block of its own


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
        incoming = graph.in_edges(with_edge=self.typed or self.weighted)
        outgoing = graph.out_edges(with_edge=self.typed)
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

    def crosses(self, edges: Edges) -> np.ndarray:
        """Which edges join two subgraphs, `[e]`."""
        return self.labels[edges.src] != self.labels[edges.dst]

    def neighbours(self, nodes: np.ndarray) -> np.ndarray:
        """What is joined to one of the nodes, either way, distinct."""
        return distinct(self.edges_into(nodes).src, self.edges_from(nodes).dst)

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
        if not len(gone.src):
            return
        keys = distinct(self.key(gone))

        def left(edges: Edges) -> Edges:
            own = self.key(edges if gone.edge_type is not None else edges._replace(edge_type=None))
            return edges.select(keys[np.searchsorted(keys[:-1], own)] != own)

        receivers, senders = distinct(gone.dst), distinct(gone.src)
        self._write_in(receivers, left(self.edges_into(receivers)))
        self._write_out(senders, left(self.edges_from(senders)))

    def add(self, new: Edges) -> None:
        """Add edges, with type 0 and weight 1 where the graph has types or weights and they have none."""
        if self.typed and new.edge_type is None:
            new = new._replace(edge_type=np.zeros(len(new.src), np.int64))
        if self.weighted and new.weight is None:
            new = new._replace(weight=np.ones(len(new.src), np.float32))
        receivers, senders = distinct(new.dst), distinct(new.src)
        self._write_in(receivers, _join(self.edges_into(receivers), new))
        self._write_out(senders, _join(self.edges_from(senders), new))

    def refresh(self, nodes: np.ndarray) -> None:
        """Bring what follows from the edges and labels of these nodes, distinct `[n]`, up to date."""
        counts, (src, *values) = self.incoming.gather(nodes)
        row = np.repeat(np.arange(len(nodes)), counts)
        crosses = self.labels[src] != self.labels[nodes][row]
        sums, found = sum_by_side(row, crosses, values[-1] if self.weighted else None, len(nodes))
        self.inside[nodes], self.cut[nodes] = sums
        self.receives_inside[nodes], self.receives_cut[nodes] = found
        edges = self.edges_from(nodes)
        self.at_cut[nodes] = self.receives_cut[nodes]
        self.at_cut[edges.src[self.crosses(edges)]] = True

    def to_graph(self, slots: np.ndarray) -> Graph:
        """The graph of all nodes, given their slots, in that order."""
        place = np.full(self.num_slots, -1)
        place[slots] = np.arange(len(slots))
        src, dst, *values = self.edges_into(slots)
        kept = (None if each is None else torch.from_numpy(each) for each in values)
        return Graph(torch.from_numpy(place[src]), torch.from_numpy(place[dst]), len(slots), *kept)

    def _write_in(self, nodes: np.ndarray, edges: Edges) -> None:
        _write(self.incoming, nodes, edges.dst, [edges.src, edges.edge_type, edges.weight])

    def _write_out(self, nodes: np.ndarray, edges: Edges) -> None:
        _write(self.outgoing, nodes, edges.src, [edges.dst, edges.edge_type])


def _join(edges: Edges, more: Edges) -> Edges:
    """Both lists; `edges` may lack a column."""
    joined = (None if one is None or other is None else np.concatenate([one, other]) for one, other in zip(edges, more))
    return Edges(*joined)  # type: ignore[arg-type]


def _write(pool: RaggedRows, rows: np.ndarray, owner: np.ndarray, columns: Sequence[np.ndarray | None]) -> None:
    """Make these entries all that the rows, rising, own."""
    order = owner.argsort(kind="stable")
    counts = np.diff(np.append(np.searchsorted(owner[order], rows), len(owner)))
    pool.replace(rows, counts, *(column[order] for column in columns if column is not None))


def sum_by_side(
    row: np.ndarray, crosses: np.ndarray, weight: np.ndarray | None, num_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of the edges into each row, inside and over the cut: the sum of |weight|, and whether there are any, `[2, n]`."""
    place, cells = 2 * row + crosses, 2 * num_rows
    counts = np.bincount(place, None, cells).reshape(-1, 2).T
    if weight is None:
        return counts, counts > 0
    return np.bincount(place, np.abs(weight).astype(np.float64), cells).reshape(-1, 2).T, counts > 0


class Round(NamedTuple):
    """The phases of a round, all rounds alike.

    Attributes:
        phases: in order.
        number: how many rounds.
    """

    phases: tuple[PhaseSpec, ...]
    number: int

    def steps(self) -> Iterator[tuple[int, int, PhaseSpec, int]]:
        """Round, position of the phase in it, phase and repeat of every step."""
        for number in range(self.number):
            for position, phase in enumerate(self.phases):
                for repeat in range(phase.repeat):
                    yield number, position, phase, repeat


def local_round(schedule: str, rounds: int, options: Mapping[str, Any]) -> Round | None:
    """The phases of a schedule; None where what one node sends may reach all others in one step.

    >>> local_round("partitioned", 2, {"intra": 2}).phases[0].repeat
    2
    >>> local_round("waves", 2, {}) is None
    True
    """
    given = dict(options)
    if schedule not in LOCAL or given.pop("virtual", None) is not None:
        return None
    return Round(LOCAL[schedule](**given), rounds)


def affected(graph: DynamicGraph, round: Round, started: np.ndarray, concerned: np.ndarray) -> list[np.ndarray]:
    """The nodes whose state a change may have changed: at the start, and after each step; each a part of the next.

    Args:
        graph: as it is after the change.
        round: the schedule.
        started: nodes that are new or have other features, `[n]`.
        concerned: nodes whose messages have other senders or weights, or that update in other phases, `[m]`.
    """
    found = [distinct(started)]
    member = np.zeros(graph.num_slots, bool)
    member[found[0]] = True
    waiting = [found[0], found[0]]  # that have not yet sent inside their subgraph, and over the cut
    for *_, phase, repeat in round.steps():
        inside, cut = SENDS[phase.kind]
        sends = (inside, cut and (phase.kind != "held" or repeat == 0))
        reached = np.concatenate([*_receivers(graph, waiting, sends), concerned if len(found) == 1 else concerned[:0]])
        fresh = distinct(reached[~member[reached]])
        member[fresh] = True
        found.append(distinct(found[-1], fresh) if len(fresh) else found[-1])
        left = [before[:0] if sent else before for before, sent in zip(waiting, sends)]
        waiting = [fresh, fresh] if all(sends) else [np.concatenate([each, fresh]) for each in left]
    return found


def _receivers(graph: DynamicGraph, waiting: Sequence[np.ndarray], sends: Sequence[bool]) -> Iterator[np.ndarray]:
    """What the waiting nodes send to inside their subgraph, over the cut, or both."""
    if all(sends) and waiting[0] is waiting[1]:
        yield graph.edges_from(waiting[0]).dst
        return
    for side, sent in enumerate(sends):
        if sent:
            edges = graph.edges_from(waiting[side])
            yield edges.dst[graph.crosses(edges) == bool(side)]


def widen(rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Rows as :func:`affected` has them; a step also takes the next one's where these are not many more.

    To compute a row that no change reached takes less time than to build another block, and gives what it was.

    >>> [each.tolist() for each in widen([np.arange(1), np.arange(2), np.arange(5), np.arange(9)])]
    [[0], [0, 1], [0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 5, 6, 7, 8]]
    """
    found = list(rows)
    for step in range(len(found) - 2, 0, -1):
        if WIDENED * len(found[step]) >= len(found[step + 1]):
            found[step] = found[step + 1]
    return found


def required(graph: DynamicGraph, round: Round, wanted: np.ndarray) -> list[np.ndarray]:
    """The nodes whose state must be known for that of `wanted` at the end: at the start, and after each step."""
    found, held = [distinct(wanted)], wanted[:0]
    for *_, phase, repeat in reversed(list(round.steps())):
        edges = graph.edges_into(found[-1])
        crosses, sends = graph.crosses(edges), SENDS[phase.kind]
        if phase.kind != "held":
            senders = edges.src if all(sends) else edges.src[crosses == sends[1]]
        else:  # what crosses was sent at the start of the phase
            senders, held = edges.src[~crosses], np.concatenate([held, edges.src[crosses]])
            if repeat == 0:
                senders, held = np.concatenate([senders, held]), held[:0]
        found.append(distinct(found[-1], senders))
    return found[::-1]
