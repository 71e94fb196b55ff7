"""Phase and Schedule: which messages are sent when, as data that one engine executes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpnn.check import check_count
from gpnn.graph import EdgeDigest, Graph
from gpnn.graph.edges import check_ids

if TYPE_CHECKING:
    from gpnn.schedule.phase_spec import AnyPhase


@dataclass(frozen=True, eq=False)
class Phase:
    """SyncProp (Algorithm 1 of the paper) over `edges`, writing `nodes`, `repeat` times.

    Every node of `nodes` updates, also one that no edge of the phase reaches. Blocks, where there are any, are
    independent: an edge of block b ends in a node of block b, and starts in one or in a node that
    does not update in this phase and that no other block reads. Held edges send once, at the start of the phase, from
    any node: their messages are those of the states before the first repeat, and every repeat aggregates them again.

    Attributes:
        edges: ids of the edges that carry a message, int64, `[e]`, sorted by block.
        nodes: ids of the nodes that update, int64, distinct, `[n]`, sorted by block.
        repeat: how often the step is done, at least once.
        kind: what the phase is for: "all", "inside", "held", "cut", "level", …; a model may have a cell for each kind.
        edge_ptr: block b owns `edges[edge_ptr[b]:edge_ptr[b + 1]]`, int64, `[B + 1]`, or None: one block.
        node_ptr: likewise for `nodes`.
        closing: whether it ends a round that an earlier phase began, as the phase over the cut does: what a cell does
            once per round, it does not do here.
        held: ids of the held edges, int64, `[h]`, sorted by the block of their receivers, or None: none.
        held_ptr: as `edge_ptr`, for `held`.
    """

    edges: Tensor
    nodes: Tensor
    repeat: int = 1
    kind: str = "all"
    edge_ptr: Tensor | None = None
    node_ptr: Tensor | None = None
    closing: bool = False
    held: Tensor | None = None
    held_ptr: Tensor | None = None

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise ValueError(f"`repeat` must be at least 1. Got {self.repeat}.")
        if (self.edge_ptr is None) != (self.node_ptr is None):
            raise ValueError("A phase with blocks needs both `edge_ptr` and `node_ptr`. Got one of them.")
        if (self.held_ptr is None) != (self.held is None or self.edge_ptr is None):
            raise ValueError("`held_ptr` must be given where a phase with blocks holds edges, and only there.")
        lengths = {name: len(ptr) for name, ptr, _ in self._pointers()}
        if len(set(lengths.values())) > 1:
            names, counts = (_listed(each) for each in ([f"`{name}`" for name in lengths], lengths.values()))
            raise ValueError(f"{names} must be equally long. Got {counts}.")
        for name, ptr, length in self._pointers():
            if ptr.dtype != torch.int64 or ptr.dim() != 1 or not ptr.numel():
                raise ValueError(f"`{name}` must be an int64 tensor [B + 1]. Got {ptr.dtype}, {list(ptr.shape)}.")
            if int(ptr[0]) != 0 or int(ptr[-1]) != length or bool((ptr.diff() < 0).any()):
                raise ValueError(f"`{name}` must rise from 0 to {length}. Got {ptr.tolist()[:8]}.")

    def __repr__(self) -> str:
        blocks = "" if self.edge_ptr is None else f", blocks={self.num_blocks}"
        sizes = f"edges={self.edges.numel()}, nodes={self.nodes.numel()}"
        held = f", held={self.num_held}" if self.num_held else ""
        return f"Phase({self.kind!r}, {sizes}, repeat={self.repeat}{blocks}{held})"

    @property
    def listed(self) -> Phase:
        """Itself; a phase over rows gives the one with edge ids."""
        return self

    @property
    def has_blocks(self) -> bool:
        return self.edge_ptr is not None

    @property
    def num_blocks(self) -> int:
        return 1 if self.edge_ptr is None else self.edge_ptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """Edges that send in every repeat."""
        return self.edges.numel()

    @property
    def num_nodes(self) -> int:
        """Nodes that update."""
        return self.nodes.numel()

    @property
    def num_held(self) -> int:
        return 0 if self.held is None else self.held.numel()

    @property
    def num_messages(self) -> int:
        """Messages sent: the edges, once per repeat, and the held edges, once."""
        return self.repeat * self.edges.numel() + self.num_held

    @property
    def num_updates(self) -> int:
        """Node updates done: the nodes, once per repeat."""
        return self.repeat * self.nodes.numel()

    def blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The (edges, nodes) of each block."""
        if self.edge_ptr is None or self.node_ptr is None:
            yield self.edges, self.nodes
            return
        edges, nodes = self.edge_ptr.tolist(), self.node_ptr.tolist()
        for block in range(self.num_blocks):
            yield self.edges[edges[block] : edges[block + 1]], self.nodes[nodes[block] : nodes[block + 1]]

    def check(self, graph: Graph, owner: Tensor | None = None) -> None:
        """Raise ValueError unless the phase fits `graph`: its ids exist, receivers update, blocks are independent.

        Args:
            graph: the graph whose ids the phase names.
            owner: scratch, int64, `[N]`, filled with -1 before and after, so that many phases can share it.
        """
        from gpnn.schedule.kernels import CROSSING_EDGE, MISSING_RECEIVER, REPEATED_NODE, find_fault

        _check_ids("edges", self.edges, graph.num_edges)
        _check_ids("nodes", self.nodes, graph.num_nodes)
        if owner is None:
            owner = torch.full((graph.num_nodes,), -1, dtype=torch.int64)
        edge_ptr = torch.tensor([0, self.edges.numel()]) if self.edge_ptr is None else self.edge_ptr
        node_ptr = torch.tensor([0, self.nodes.numel()]) if self.node_ptr is None else self.node_ptr
        arrays = (graph.src, graph.dst, self.edges, self.nodes, edge_ptr, node_ptr, owner)
        fault, number = find_fault(*(array.numpy() for array in arrays))
        if fault == REPEATED_NODE:
            raise ValueError(f"The nodes of a phase must be distinct. Node {number} comes twice.")
        if fault == MISSING_RECEIVER:
            raise ValueError(f"Every receiver of a phase must be among its nodes. Node {number} is not.")
        if fault == CROSSING_EDGE:
            raise ValueError(f"No edge of a phase may cross its blocks. Edge {number} does.")
        if self.held is not None:
            self._check_held(self.held, graph, owner)

    def _check_held(self, held: Tensor, graph: Graph, owner: Tensor) -> None:
        """Raise ValueError unless every held edge ends in a node of its block."""
        _check_ids("held", held, graph.num_edges)
        blocks = torch.arange(self.num_blocks)
        owner[self.nodes] = 0 if self.node_ptr is None else blocks.repeat_interleave(self.node_ptr.diff())
        given = 0 if self.held_ptr is None else blocks.repeat_interleave(self.held_ptr.diff())
        misplaced = (owner[graph.dst[held]] != given).nonzero().flatten()
        owner[self.nodes] = -1
        if misplaced.numel():
            edge = int(held[misplaced[0]])
            raise ValueError(f"A held edge must end in a node that its block updates. Edge {edge} does not.")

    def _pointers(self) -> Iterator[tuple[str, Tensor, int]]:
        if self.edge_ptr is not None and self.node_ptr is not None:
            yield "edge_ptr", self.edge_ptr, self.edges.numel()
            yield "node_ptr", self.node_ptr, self.nodes.numel()
        if self.held_ptr is not None:
            yield "held_ptr", self.held_ptr, self.num_held


def _listed(values: Iterable[object]) -> str:
    """The values as in a sentence: a, b and c."""
    *before, last = map(str, values)
    return f"{', '.join(before)} and {last}"


def _check_ids(name: str, ids: Tensor, bound: int) -> None:
    if ids.dtype != torch.int64 or ids.dim() != 1:
        raise ValueError(f"`{name}` must be a one-dimensional int64 tensor. Got {ids.dtype}, {list(ids.shape)}.")
    check_ids(f"`{name}` must lie", ids, bound)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Rounds of phases over one graph; it checks itself when it is made.

    Attributes:
        graph: the graph whose edge and node ids the phases name; it holds the virtual nodes too.
        rounds: the phases of each round, in order. Equal rounds share the same objects.
        num_virtual: how many of the graph's last nodes are virtual (added by the schedule).
        digest: of the graph's edges when the schedule was made; None over rows, which are not compared.
    """

    graph: Graph
    rounds: tuple[tuple[AnyPhase, ...], ...]
    num_virtual: int = 0
    digest: EdgeDigest | None = field(init=False)

    def __post_init__(self) -> None:
        check_count("num_virtual", self.num_virtual, at_least=0)
        listed = [phase for phase in self.distinct_phases() if isinstance(phase, Phase)]
        owner = torch.full((self.graph.num_nodes if listed else 0,), -1, dtype=torch.int64)
        for phase in listed:
            phase.check(self.graph, owner)
        object.__setattr__(self, "digest", self.graph.digest() if self.graph.rows is None else None)

    def __repr__(self) -> str:
        return (
            f"Schedule(rounds={self.num_rounds}, phases={self.num_phases}, "
            f"messages={self.num_messages}, updates={self.num_updates})"
        )

    def _repr_html_(self) -> str:
        from gpnn.schedule.draw import MAX_NODES, draw_schedule

        drawn = self.graph.rows is None and self.graph.num_nodes - self.num_virtual <= MAX_NODES
        return draw_schedule(self) if drawn else repr(self)

    def check_unchanged(self) -> None:
        """Raise ValueError where the graph's edges were changed in place since the schedule was made.

        A graph shares the memory of the arrays that it was made from: the user can write to them at any time.
        """
        if self.digest is not None and self.graph.digest() != self.digest:
            raise ValueError(
                "The edges of a graph must stay as they were when its schedule was made. They were changed in place: "
                "build schedule and plan again, or change a copy."
            )

    @property
    def num_rounds(self) -> int:
        return len(self.rounds)

    @property
    def num_phases(self) -> int:
        """Phases in all rounds."""
        return sum(map(len, self.rounds))

    @property
    def num_steps(self) -> int:
        """Steps in all rounds, one for each repeat of each phase: the depth of the computation."""
        return sum(phase.repeat for phases in self.rounds for phase in phases)

    @property
    def num_messages(self) -> int:
        """Messages sent in all rounds, all phases, all repeats."""
        return sum(phase.num_messages for phases in self.rounds for phase in phases)

    @property
    def num_updates(self) -> int:
        """Node updates done in all rounds, all phases, all repeats."""
        return sum(phase.num_updates for phases in self.rounds for phase in phases)

    def distinct_phases(self) -> Iterator[AnyPhase]:
        """Each phase object once, in order of first use."""
        seen: set[int] = set()
        for phases in self.rounds:
            for phase in phases:
                if id(phase) not in seen:
                    seen.add(id(phase))
                    yield phase
