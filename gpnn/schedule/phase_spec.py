"""PhaseSpec: a phase described by the subgraphs of an edge's two ends, for a graph in any form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from gpnn.check import check_choice, check_count
from gpnn.csr import pointers
from gpnn.graph import Graph
from gpnn.partition import Partition
from gpnn.schedule.phase import Phase
from gpnn.schedule.row_phase import RowPhase, count_crossings

AnyPhase: TypeAlias = Phase | RowPhase

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
