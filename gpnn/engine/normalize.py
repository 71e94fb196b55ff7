"""How much each message of a phase weighs, decided once, when a schedule is lowered.

A rule gives the weight of each edge of a phase and the weight with which a node also hears itself (the diagonal).
P is the random walk over the whole graph: P[u, v] = w(u, v) / Σ w(·, v). The rules, for a node v:

===================  =============================================  =======================================
rule                 weight of the message u → v                    diagonal
===================  =============================================  =======================================
phase                w / (in-weight of v inside the phase)          0: the paper's reference rule
graph                P[u, v]                                        0
split                P[u, v]                                        1 − Σ of P over the phase's edges into v
symmetric            w / √(d(u) d(v)) over the whole graph          0: GCN's rule
symmetric_phase      the same with degrees inside the phase         0
symmetric_split      that of `symmetric`                            that of `split`
none                 w                                              0
===================  =============================================  =======================================

Under `split` a round composes to one synchronous step for nodes that no cut edge reaches, and to a lazy one at the
others: what a phase does not bring, the node keeps of itself. With `self_loops` every node has one more edge, from
itself: it counts in every degree and is heard through the diagonal, in each phase under the `phase` rules, once under
the others where the graph is one phase (under `split` the diagonal already holds it).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.graph import Graph

NORMALIZATIONS = ("phase", "graph", "split", "symmetric", "symmetric_phase", "symmetric_split", "none")


class Normalizer(NamedTuple):
    """A normalisation rule bound to one graph."""

    rule: str
    graph: Graph
    num_real: int  # nodes that are not virtual
    loop: float  # weight of the self-loop that every node has: 1 or 0
    degree: Tensor  # [N] in-weight of each node over the edges between real nodes, self-loop included

    def phase_weights(self, edges: Tensor, nodes: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The weight of each edge `[e]` (None: all one) and the diagonal of each node `[n]` (None: all zero).

        Phases that touch virtual nodes are normalised by themselves under every rule: a virtual node is no
        neighbour in the graph that the rule speaks of.
        """
        rule = self.rule
        if rule != "none" and self._touches_virtual(edges):
            rule = "phase"
        local = rule in ("phase", "symmetric_phase")
        degree = self._phase_degree(edges) if local else self.degree
        weight = self._raw(edges)
        if rule == "none":
            diagonal = torch.ones(nodes.numel()) if self.loop else None
            return (None if self.graph.edge_weight is None else weight), diagonal
        target = degree[self.graph.dst[edges]]
        if rule.startswith("symmetric"):
            source = degree[self.graph.src[edges]]
            share = weight * _inverse((source * target).sqrt())
        else:
            share = weight * _inverse(target)
        if rule.endswith("split"):
            return share, self._missing(edges, nodes)
        return share, (self.loop * _inverse(degree[nodes]) if self.loop else None)

    def _missing(self, edges: Tensor, nodes: Tensor) -> Tensor:
        """What the phase's edges leave of each node's random-walk mass, `[n]`."""
        target = self.graph.dst[edges]
        walk = self._raw(edges) * _inverse(self.degree[target])
        brought = torch.zeros(self.graph.num_nodes, dtype=walk.dtype).index_add_(0, target, walk)
        return (1 - brought[nodes]).clamp_(min=0)

    def _phase_degree(self, edges: Tensor) -> Tensor:
        return in_weight(self.graph, edges) + self.loop

    def _raw(self, edges: Tensor) -> Tensor:
        if self.graph.edge_weight is None:
            return torch.ones(edges.numel(), dtype=torch.float64)
        return self.graph.edge_weight[edges].double()

    def _touches_virtual(self, edges: Tensor) -> bool:
        ends = torch.maximum(self.graph.src[edges], self.graph.dst[edges])
        return bool(edges.numel()) and int(ends.max()) >= self.num_real


def bind_rule(rule: str, graph: Graph, num_virtual: int, self_loops: bool) -> Normalizer:
    """The named rule over `graph`.

    Raises:
        ValueError: when there is no such rule.
    """
    if rule not in NORMALIZATIONS:
        raise ValueError(f"`normalization` must be one of {', '.join(NORMALIZATIONS)}. Got {rule!r}.")
    num_real, loop = graph.num_nodes - num_virtual, float(self_loops)
    real = (torch.maximum(graph.src, graph.dst) < num_real).nonzero().flatten() if num_virtual else None
    return Normalizer(rule, graph, num_real, loop, in_weight(graph, real) + loop)


def in_weight(graph: Graph, edges: Tensor | None = None) -> Tensor:
    """The sum of |weight| over the edges into each node, float64, `[N]`; of all edges when `edges` is None."""
    target = graph.dst if edges is None else graph.dst[edges]
    if graph.edge_weight is None:
        return torch.bincount(target, minlength=graph.num_nodes).double()
    weight = graph.edge_weight if edges is None else graph.edge_weight[edges]
    return torch.zeros(graph.num_nodes, dtype=torch.float64).index_add_(0, target, weight.abs().double())


def _inverse(degree: Tensor) -> Tensor:
    return torch.where(degree > 0, 1 / degree, 0.0)
