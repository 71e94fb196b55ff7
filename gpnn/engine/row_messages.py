"""RowMessages: blocks of a phase over rows whose messages have weights, types or loops, one range's edges at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.engine.block import Block, BlockBuilder, Messages
from gpnn.engine.normalize import Normalizer
from gpnn.engine.row_blocks import RowLayout
from gpnn.graph import Graph
from gpnn.graph.edges import edge_slices, receivers
from gpnn.schedule import PhaseSpec


class Edges(NamedTuple):
    """The edges of a phase into a range of plan rows."""

    nodes: Tensor  # [n] plan rows that update
    src: Tensor  # [e] plan row of each sender
    dst: Tensor  # [e] and of each receiver
    entry: Tensor  # [e] the edge's id
    crosses: Tensor  # [e] whether the sender lies in another range


@dataclass(frozen=True, eq=False)
class RowMessages:
    """What :class:`RowLayout` makes without weights, with those of any rule, the graph's own, types and loops.

    Attributes:
        graph: over rows.
        layout: its rows in plan order, on the CPU.
        rule: a rule of :mod:`gpnn.engine.normalize`.
        self_loops: whether every node also receives its own message.
        builder: makes blocks, on the plan's device.
    """

    graph: Graph
    layout: RowLayout
    rule: str
    self_loops: bool
    builder: BlockBuilder

    def blocks(self, spec: PhaseSpec) -> tuple[Block, ...]:
        """A block of a phase's edges into each range; none where no row of it updates."""
        completed = self._completed(spec)
        found = (self._edges(spec, *ends) for ends in pairwise(self.layout.ends))
        return tuple(self._build(spec, edges, completed) for edges in found if len(edges.nodes))

    def whole(self, spec: PhaseSpec) -> Block:
        """All of a phase's edges as one block."""
        found = [self._edges(spec, *ends) for ends in pairwise(self.layout.ends)]
        return self._build(spec, Edges(*map(torch.cat, zip(*found))), None)

    def _edges(self, spec: PhaseSpec, first: int, last: int) -> Edges:
        piece = self.layout.gather(first, last)
        kept = piece.kept(spec, "phase")
        chosen = piece.chosen(spec)
        entry = self.layout.entries(first, last).entry[chosen]
        nodes = kept.updates.nonzero().flatten() + first
        return Edges(nodes, kept.sender.long(), piece.row[chosen] + first, entry, kept.crosses)

    def _build(self, spec: PhaseSpec, edges: Edges, completed: Tensor | None) -> Block:
        """The block of some edges; `completed` are the in-weights of all rows inside the phase, where they count."""
        own_type, own_weight = (
            None if values is None else values[edges.entry].cpu()
            for values in (self.graph.edge_type, self.graph.edge_weight)
        )
        local = Graph(edges.src, edges.dst, self.graph.num_nodes, None, own_weight)
        complete = None if completed is None else _completion(completed, edges.src)
        rule = Normalizer(self.rule, local, None, float(self.self_loops), self._degree, self._scratch, complete)
        weights = rule.phase_weights(torch.arange(len(edges.src)), edges.nodes)
        dtype = torch.float32 if own_weight is None else own_weight.dtype
        messages = Messages(
            edges.nodes,
            edges.src,
            edges.dst,
            edges.entry,
            None if weights.edge is None else weights.edge.to(dtype),
            weights.row,
            own_weight,
            own_type if self.graph.num_edge_types > 1 and own_type is not None else None,
            weights.diagonal,
            weights.degrees,
            edges.crosses if spec.kind == "held" and spec.repeat > 1 else None,
        )
        return self.builder.build(messages)

    @cached_property
    def _degree(self) -> Tensor:
        """The in-weight of each plan row over the whole graph, self-loop included, float64, `[N]`."""
        graph, order = self.graph, self.layout.order
        if graph.edge_weight is None:
            degree = graph.in_degree.double()
        else:
            degree = torch.zeros(graph.num_nodes, dtype=torch.float64)
            for chunk in edge_slices(graph.num_edges):
                degree.index_add_(0, receivers(self.layout.ptr, chunk), graph.edge_weight[chunk].cpu().abs().double())
        return (degree if order is None else degree[order]) + float(self.self_loops)

    @cached_property
    def _scratch(self) -> Tensor:
        return torch.zeros(self.graph.num_nodes, dtype=torch.float64)

    def _completed(self, spec: PhaseSpec) -> Tensor | None:
        """The in-weights of all rows inside a phase, `[N]`, for the rule that also takes those of senders."""
        if self.rule != "symmetric_phase":
            return None
        total = torch.zeros(self.graph.num_nodes, dtype=torch.float64)
        for ends in pairwise(self.layout.ends):
            edges = self._edges(spec, *ends)
            weight = self.graph.edge_weight
            own = torch.ones(len(edges.dst)) if weight is None else weight[edges.entry].cpu().abs()
            total.index_add_(0, edges.dst, own.double())
        return total


def _completion(total: Tensor, senders: Tensor) -> Callable[[Tensor], None]:
    def complete(inside: Tensor) -> None:
        inside[senders] = total[senders]

    return complete


def needs_messages(graph: Graph, rule: str, self_loops: bool, plain: Sequence[str]) -> bool:
    """Whether messages are weighted otherwise than by rows, typed, or sent to oneself; `plain` rules weigh by rows."""
    return rule not in plain or self_loops or graph.edge_weight is not None or graph.num_edge_types > 1
