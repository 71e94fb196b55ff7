"""PhaseSpec: a phase described by the subgraphs of an edge's two ends; RowPhase: one over rows, without edge ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice, check_count
from gpnn.csr import pointers, slices
from gpnn.graph import Graph
from gpnn.graph.edges import receivers
from gpnn.partition import Partition
from gpnn.schedule.schedule import Phase

CHUNK = 1 << 24  # edges that are counted at a time on a device
RECEIVES_INSIDE, RECEIVES_CUT, SENDS_CUT = 1, 2, 4  # what a node does, as bits
SPEC_KINDS = ("all", "inside", "cut", "held")
UPDATES = ("members", "receivers")


@dataclass(frozen=True)
class PhaseSpec:
    """A phase that follows from a partition alone, without edge ids.

    The schedules over an edge list resolve it by :func:`resolve_phases`; :func:`gpnn.engine.lower_csr` resolves it over
    a graph in CSR form, on any device.

    Attributes:
        kind: which edges send: "all"; "inside", both ends in one subgraph; "cut", the ends in two; "held", the inside
            edges in every repeat and the cut edges what their senders had at the start of the phase.
        repeat: how often the step is done, at least once.
        update: which nodes update: "members": every node, and at the cut both ends of every cut edge; "receivers"
            (inside or at the cut): only nodes that receive a message in the phase.
        closing: whether it ends a round that an earlier phase began; see :class:`Phase`.

    >>> PhaseSpec("cut", closing=True)
    PhaseSpec(kind='cut', repeat=1, update='members', closing=True)
    """

    kind: str
    repeat: int = 1
    update: str = "members"
    closing: bool = False

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, SPEC_KINDS)
        check_count("repeat", self.repeat, at_least=1)
        check_choice("update", self.update, UPDATES if self.kind in ("inside", "cut") else UPDATES[:1])


@dataclass(frozen=True, eq=False)
class Crossings:
    """Which edges of a graph cross between the subgraphs of a partition.

    Attributes:
        inside: edges that stay in each subgraph, `[K]`.
        cut: edges into each subgraph from another, `[K]`.
        halo: nodes of others that send into each subgraph, `[K]`; at most so many where the graph is not symmetric.
        roles: what each node does, as bits: receives inside, receives over the cut, sends over the cut; uint8 `[N]`.
    """

    inside: Tensor
    cut: Tensor
    halo: Tensor
    roles: Tensor

    def nodes(self, roles: int) -> int:
        """How many nodes have one of these roles."""
        return int(((self.roles & roles) != 0).sum())


def count_crossings(graph: Graph, parts: Partition) -> Crossings:
    """The crossings of a graph over rows, in one pass."""
    from gpnn.schedule.kernels import count_crossing

    rows = graph.rows
    assert rows is not None
    if rows.ptr.device.type == "cpu":
        counts, roles = np.zeros((3, parts.num_parts), np.int64), np.zeros(graph.num_nodes, np.uint8)
        count_crossing(rows.ptr.numpy(), rows.col.numpy(), parts.labels.numpy(), counts, roles)
        inside, cut, halo = torch.from_numpy(counts)
        found = Crossings(inside, cut, halo, torch.from_numpy(roles))
    else:
        found = _count_on_device(graph, parts)
    if rows.symmetric:  # else its rows do not tell where a node sends to
        return found
    return replace(found, halo=found.cut.clamp(max=found.nodes(SENDS_CUT)))


def _count_on_device(graph: Graph, parts: Partition) -> Crossings:
    rows = graph.rows
    assert rows is not None
    labels = parts.labels.to(rows.ptr.device)
    k = parts.num_parts
    counts = torch.zeros(3 * k, dtype=torch.int64, device=labels.device)
    flags = torch.zeros(3, graph.num_nodes, dtype=torch.bool, device=labels.device)
    for chunk in slices(graph.num_edges, CHUNK):
        sender, receiver = rows.col[chunk].long(), receivers(rows.ptr, chunk)
        crosses = labels[sender] != labels[receiver]
        counts += torch.bincount(labels[receiver] + k * crosses, minlength=len(counts))
        pairs = (receiver[crosses] * k + labels[sender[crosses]]).unique()  # a node with neighbours in another subgraph
        counts += torch.bincount(pairs % k + 2 * k, minlength=len(counts))
        for flag, nodes in zip(flags, (receiver[~crosses], receiver[crosses], sender[crosses])):
            flag[nodes] = True
    roles = (flags[0] + 2 * flags[1].to(torch.uint8) + 4 * flags[2].to(torch.uint8)).to(torch.uint8)
    inside, cut, halo = counts.cpu().view(3, -1)
    return Crossings(inside, cut, halo, roles.cpu())


@dataclass(frozen=True, eq=False)
class RowPhase:
    """A :class:`Phase` over a graph that is given by its rows; `listed` is the phase itself, made when needed.

    Attributes:
        spec: what it is for, and which edges and nodes it has.
        graph: over rows.
        parts: the subgraphs; None for a phase over all edges.
        crossings: of the graph between them.
    """

    spec: PhaseSpec
    graph: Graph
    parts: Partition | None = None
    crossings: Crossings | None = None

    def __repr__(self) -> str:
        blocks = f", blocks={self.num_blocks}" if self.has_blocks else ""
        held = f", held={self.num_held}" if self.num_held else ""
        sizes = f"edges={self.num_edges}, nodes={self.num_nodes}"
        return f"RowPhase({self.kind!r}, {sizes}, repeat={self.repeat}{blocks}{held})"

    @property
    def kind(self) -> str:
        return self.spec.kind

    @property
    def repeat(self) -> int:
        return self.spec.repeat

    @property
    def closing(self) -> bool:
        return self.spec.closing

    @property
    def has_blocks(self) -> bool:
        return self.kind in ("inside", "held")

    @property
    def num_blocks(self) -> int:
        return self.parts.num_parts if self.has_blocks and self.parts is not None else 1

    @cached_property
    def num_edges(self) -> int:
        """Edges that send in every repeat."""
        if self.crossings is None:
            return self.graph.num_edges
        return int((self.crossings.cut if self.kind == "cut" else self.crossings.inside).sum())

    @cached_property
    def num_held(self) -> int:
        return int(self.crossings.cut.sum()) if self.kind == "held" and self.crossings is not None else 0

    @cached_property
    def num_nodes(self) -> int:
        """Nodes that update."""
        if self.crossings is None or (self.kind != "cut" and self.spec.update == "members"):
            return self.graph.num_nodes
        if self.kind == "inside":
            return self.crossings.nodes(RECEIVES_INSIDE)
        return self.crossings.nodes(RECEIVES_CUT | (SENDS_CUT if self.spec.update == "members" else 0))

    @property
    def num_messages(self) -> int:
        """Messages sent: the edges, once per repeat, and the held edges, once."""
        return self.repeat * self.num_edges + self.num_held

    @property
    def num_updates(self) -> int:
        """Node updates done: the nodes, once per repeat."""
        return self.repeat * self.num_nodes

    @cached_property
    def listed(self) -> Phase:
        """The same phase by edge ids: 8 bytes per edge, and 16 for the edge list that it is resolved over."""
        if self.parts is None:
            ids = torch.arange(self.graph.num_edges), torch.arange(self.graph.num_nodes)
            return Phase(*ids, self.repeat, self.kind, closing=self.closing)
        (phase,) = resolve_listed((self.spec,), self.graph, self.parts)
        return phase


AnyPhase: TypeAlias = Phase | RowPhase


def resolve_phases(specs: Sequence[PhaseSpec], graph: Graph, parts: Partition) -> tuple[AnyPhase, ...]:
    """The phases over a graph; one that would neither send nor update anything is left out.

    Of all kinds but "all", which needs no partition. Over a graph in CSR form they hold no edge ids.
    """
    if graph.rows is None:
        return resolve_listed(specs, graph, parts)
    crossings = count_crossings(graph, parts)
    phases = (RowPhase(spec, graph, parts, crossings) for spec in specs)
    return tuple(phase for phase in phases if phase.num_nodes and (phase.kind != "cut" or phase.num_edges))


def resolve_listed(specs: Sequence[PhaseSpec], graph: Graph, parts: Partition) -> tuple[Phase, ...]:
    """The phases over the edge ids of a graph, which is made an edge list where it is not."""
    crossing = parts.labels[graph.src] != parts.labels[graph.dst]  # [E]
    phases = (_RESOLVE[spec.kind](spec, graph, parts, crossing) for spec in specs)
    return tuple(phase for phase in phases if phase is not None)


def _inside(spec: PhaseSpec, graph: Graph, parts: Partition, crossing: Tensor) -> Phase | None:
    """The edges that stay in their subgraph; one block per subgraph."""
    edges = _by_part((~crossing).nonzero().flatten(), parts.labels[graph.dst])
    nodes = parts.order
    if spec.update == "receivers":
        nodes = nodes[_marked(graph.dst[edges], graph.num_nodes)[nodes]]
    if not nodes.numel():
        return None
    edge_ptr, node_ptr = (_count(parts.labels[each], parts) for each in (graph.dst[edges], nodes))
    return Phase(edges, nodes, spec.repeat, spec.kind, edge_ptr, node_ptr, closing=spec.closing)


def _cut(spec: PhaseSpec, graph: Graph, parts: Partition, crossing: Tensor) -> Phase | None:
    """The edges that join two subgraphs."""
    edges = crossing.nonzero().flatten()
    if not edges.numel():
        return None
    ends = graph.dst[edges]
    if spec.update == "members":
        ends = torch.cat([graph.src[edges], ends])
    nodes = _marked(ends, graph.num_nodes).nonzero().flatten()
    return Phase(edges, nodes, spec.repeat, spec.kind, closing=spec.closing)


def _held(spec: PhaseSpec, graph: Graph, parts: Partition, crossing: Tensor) -> Phase | None:
    """The inside phase, with the edges of the cut held; blocks hold the edges into their subgraph."""
    phase, receiver = _inside(spec, graph, parts, crossing), parts.labels[graph.dst]
    held = _by_part(crossing.nonzero().flatten(), receiver)
    if phase is None or not held.numel():
        return phase
    return replace(phase, held=held, held_ptr=_count(receiver[held], parts))


def _by_part(edges: Tensor, part: Tensor) -> Tensor:
    """The edges by the subgraph of each, `[E]`, in their order."""
    return edges[part[edges].argsort(stable=True)]


def _count(labels: Tensor, parts: Partition) -> Tensor:
    return pointers(torch.bincount(labels, minlength=parts.num_parts))


def _marked(ids: Tensor, length: int) -> Tensor:
    mask = torch.zeros(length, dtype=torch.bool)
    mask[ids] = True
    return mask


_RESOLVE: dict[str, Callable[[PhaseSpec, Graph, Partition, Tensor], Phase | None]] = {
    "inside": _inside,
    "cut": _cut,
    "held": _held,
}
