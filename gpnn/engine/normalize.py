"""How much each message of a phase weighs, decided once, when a schedule is lowered.

A rule gives the weight of each edge of a phase and the weight of a node's message to itself (the diagonal).
P is the random walk over the whole graph: P[u, v] = w(u, v) / Σ |w(·, v)|; all degrees are sums of |w| over incoming
edges, so that negative weights do not cancel them. The rules, for a node v:

===================  =============================================  =======================================
rule                 weight of the message u → v                    diagonal
===================  =============================================  =======================================
phase                w / (in-weight of v inside the phase)          0: the paper's reference rule
graph                P[u, v]                                        0
split                P[u, v]                                        1 − Σ of |P| over the phase's edges into v
symmetric            w / √(d(u) d(v)) over the whole graph          0: GCN's rule
symmetric_phase      the same with degrees inside the phase         0
symmetric_split      that of `symmetric`                            that of `split`
none                 w                                              0
===================  =============================================  =======================================

Under `split` a round composes to one synchronous step for nodes that no cut edge reaches, and to a lazy one at the
others: what a phase does not bring, the node keeps of itself. With `self_loops` every node has one more edge, from
itself: it counts in every degree and is sent through the diagonal in each phase that updates the node (under `split`
the diagonal already holds it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.graph import Graph

NORMALIZATIONS = ("phase", "graph", "split", "symmetric", "symmetric_phase", "symmetric_split", "none")


class PhaseWeights(NamedTuple):
    """How much the messages of a phase weigh: edge · row of the receiver, in float64.

    Attributes:
        edge: a factor of each edge, `[e]`, or None: the graph's own weight.
        row: a factor of all messages to a node, `[n]`, or None: all one.
        diagonal: the weight of each node's message to itself, `[n]`, or None: all zero.
        degrees: what a symmetric rule's `edge` follows from (:func:`symmetric_weight`): the degree of each node, `[n]`,
            and of each edge's sender, `[e]`; None under other rules.
    """

    edge: Tensor | None
    row: Tensor | None
    diagonal: Tensor | None
    degrees: tuple[Tensor, Tensor] | None = None


class RowWeights(NamedTuple):
    """What a rule weighs messages by at each row, in float64, `[n]` each; see :func:`row_weights`.

    Attributes:
        degree: the degree that the rule divides by, in the phase or in the whole graph.
        row: a factor of all messages to the row, or None: all one.
        diagonal: the weight of its message to itself, or None: all zero.
    """

    degree: Tensor
    row: Tensor | None
    diagonal: Tensor | None


def row_weights(rule: str, inside: Tensor, degree: Tensor, loop: float) -> RowWeights:
    """The weights of rows under a rule, wherever they lie.

    A symmetric rule's `row` is the receiver's share, 1 / √d(v), of the weight of an edge; the sender has its own.

    Args:
        rule: one of `NORMALIZATIONS`.
        inside: in-weight of each row over the edges of the phase, `[n]`.
        degree: over the whole graph, self-loop included, `[n]`.
        loop: weight of the self-loop that every node has: 1 or 0.
    """
    if rule == "none":
        return RowWeights(degree, None, torch.ones_like(inside) if loop else None)
    own = inside + loop if is_local(rule) else degree
    diagonal = None
    if rule.endswith("split"):
        diagonal = (1 - inside * inverse(degree)).clamp_(min=0)
    elif loop:
        diagonal = loop * inverse(own)
    return RowWeights(own, inverse(own.sqrt() if is_symmetric(rule) else own), diagonal)


def is_local(rule: str) -> bool:
    """Whether degrees are those inside a phase."""
    return rule in ("phase", "symmetric_phase")


def is_symmetric(rule: str) -> bool:
    """Whether the weight of an edge follows from the degrees of both its ends."""
    return rule.startswith("symmetric")


class Normalizer(NamedTuple):
    """A normalisation rule bound to one graph."""

    rule: str
    graph: Graph
    virtual: Tensor | None  # [N] which nodes are virtual, or None: none
    loop: float  # weight of the self-loop that every node has: 1 or 0
    degree: Tensor  # [N] in-weight of each node over the edges between real nodes, self-loop included
    scratch: Tensor  # [N] zeros, left so: buffer for the in-weights of one phase
    complete: Callable[[Tensor], None] | None = None  # fills in the in-weights of senders whose edges are elsewhere

    def phase_weights(self, edges: Tensor, nodes: Tensor) -> PhaseWeights:
        """The weights of a phase's messages.

        Phases that touch virtual nodes are normalised by themselves under every rule: a virtual node is no
        neighbour in the graph that the rule speaks of.
        """
        rule, weight = "phase" if self._touches_virtual(edges) else self.rule, self._raw(edges)
        if self.rule == "none":
            return PhaseWeights(None, None, torch.ones(nodes.numel()) if self.loop else None)
        src, dst = self.graph.src[edges], self.graph.dst[edges]
        inside = self.scratch.index_add_(0, dst, weight.abs())
        if self.complete is not None:
            self.complete(inside)
        of_rows = row_weights(rule, inside[nodes], self.degree[nodes], self.loop)
        edge, row, degrees = None, of_rows.row, None
        if is_symmetric(rule):
            degree = inside + self.loop if is_local(rule) else self.degree
            edge, row = symmetric_weight(weight, degree[src], degree[dst]), None
            degrees = of_rows.degree, degree[src]
        self.scratch[dst] = 0
        if self.complete is not None:
            self.scratch[src] = 0
        return PhaseWeights(edge, row, of_rows.diagonal, degrees)

    def _raw(self, edges: Tensor) -> Tensor:
        if self.graph.edge_weight is None:
            return torch.ones(edges.numel(), dtype=torch.float64)
        return self.graph.edge_weight[edges].double()

    def _touches_virtual(self, edges: Tensor) -> bool:
        if self.virtual is None:
            return False
        return bool((self.virtual[self.graph.src[edges]] | self.virtual[self.graph.dst[edges]]).any())


def bind_rule(rule: str, graph: Graph, virtual: Tensor | None, self_loops: bool) -> Normalizer:
    """The named rule over `graph`, of whose nodes some may be virtual (a mask `[N]`).

    Raises:
        ValueError: when there is no such rule.
    """
    check_choice("normalization", rule, NORMALIZATIONS)
    loop, real = float(self_loops), None
    if virtual is not None:
        real = (~(virtual[graph.src] | virtual[graph.dst])).nonzero().flatten()
    scratch = torch.zeros(graph.num_nodes, dtype=torch.float64)
    return Normalizer(rule, graph, virtual, loop, in_weight(graph, real) + loop, scratch)


def in_weight(graph: Graph, edges: Tensor | None = None) -> Tensor:
    """The sum of |weight| over the edges into each node, float64, `[N]`; of all edges when `edges` is None."""
    target = graph.dst if edges is None else graph.dst[edges]
    if graph.edge_weight is None:
        return torch.bincount(target, minlength=graph.num_nodes).double()
    weight = graph.edge_weight if edges is None else graph.edge_weight[edges]
    return torch.zeros(graph.num_nodes, dtype=torch.float64).index_add_(0, target, weight.abs().double())


def symmetric_weight(weight: Tensor, sender: Tensor, receiver: Tensor) -> Tensor:
    """GCN's weight w / √(d(u) d(v)) of each edge, `[e]`, given w and the degrees of its ends; 0 where one is 0."""
    return weight * inverse((sender * receiver).sqrt_())


def inverse(degree: Tensor) -> Tensor:
    """1 / degree, and 0 where it is 0."""
    return torch.where(degree > 0, 1 / degree, 0.0)
