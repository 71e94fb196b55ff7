"""What training in several processes costs: seconds, bytes sent and memory of the busiest process, on paper.

The model knows a graph by its sizes and a machine by four speeds. With R processes, own nodes n = N/R, edges e = E/R
and halo rows h of a process, T rounds of T_S steps inside and T_C over the cut, S passes, states of d channels of s
bytes, a fraction c of edges cut and a fraction u of nodes at a cut edge, an epoch has for each process

======================  ==============================================================================================
messages                S·T·(T_S·(1 − c) + T_C·c)·e, forward and backward
updates                 S·T·(T_S + T_C·u)·n, forward and backward
bytes sent              2·S·T·T_C·h·d·s: rows forward, gradients of rows back; synchronous: 2·S·T·(T_S + T_C)·h·d·s
seconds                 (messages/m + updates/w)·d + rest·S·n + bytes/b + l·exchanges, less what overlaps
memory                  edge_bytes·e + (feature_bytes + 2·d·s)·n + kept·d·s·updates + d·s·(halo rows of all cut steps)
======================  ==============================================================================================

`docs/distributed.md` holds it against measurements.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """A graph, a schedule and a model.

    Attributes:
        num_nodes: N.
        num_edges: E.
        channels: width of the states, d.
        rounds: T.
        intra: T_S.
        cut: T_C.
        cut_edges: fraction of the edges between subgraphs, c.
        cut_nodes: fraction of the nodes at such an edge, u.
        feature_bytes: bytes of a node's features, labels and masks.
        passes: S, forward passes per epoch.
        state_bytes: bytes of an entry of a state, s: 4, or 2 in bf16.
        parameters: number of shared parameters.
    """

    num_nodes: float
    num_edges: float
    channels: int
    rounds: int
    intra: int
    cut: int
    cut_edges: float
    cut_nodes: float
    feature_bytes: float = 0.0
    passes: int = 1
    state_bytes: int = 4
    parameters: float = 0.0

    @property
    def steps(self) -> int:
        """Steps of a pass: the depth of the computation."""
        return self.rounds * (self.intra + self.cut)


@dataclass(frozen=True)
class Machine:
    """What one process can do.

    Attributes:
        messages: m, message entries (messages times channels) a second, forward and backward together.
        updates: w, update entries per second, forward and backward together.
        bandwidth: b, bytes per second that it sends.
        latency: l, seconds that an exchange takes however little it sends.
        edge_bytes: memory that an edge takes in a plan.
        rest: seconds that a pass takes for a node besides propagation: encoder, head, loss.
        kept: states kept for the backward pass, for each state that a step writes.
        memory: bytes that it has.
    """

    messages: float
    updates: float
    bandwidth: float
    latency: float
    edge_bytes: float = 40.0
    rest: float = 0.0
    kept: float = 3.0
    memory: float = float("inf")


@dataclass(frozen=True)
class Cost:
    """What an epoch costs the busiest process.

    Attributes:
        compute: seconds of messages and updates.
        exchange: seconds of rows and gradients on their way, were nothing done meanwhile.
        sent: bytes of them.
        synchronous: bytes that synchronous propagation of the same depth would send.
        reduce: seconds of the parameters' gradients.
        memory: bytes at the peak.
    """

    compute: float
    exchange: float
    sent: float
    synchronous: float
    reduce: float
    memory: float

    @property
    def seconds(self) -> float:
        """Seconds of an epoch where nothing overlaps."""
        return self.compute + self.exchange + self.reduce

    @property
    def overlapped(self) -> float:
        """Seconds of an epoch where all of the exchange hides behind computing."""
        return max(self.compute, self.exchange) + self.reduce


def estimate(work: Workload, machine: Machine, num_processes: int, halo: float, balance: float = 1.0) -> Cost:
    """The cost of one epoch in `num_processes` processes.

    Args:
        work: what is trained.
        machine: what a process can do.
        num_processes: R.
        halo: rows that the busiest process receives at a cut step, h.
        balance: work of the busiest process over the mean.

    >>> work = Workload(1000, 10_000, 8, rounds=1, intra=1, cut=1, cut_edges=0.1, cut_nodes=0.5)
    >>> estimate(work, Machine(1e6, 1e6, 1e6, 0.0), 2, halo=100).sent
    6400.0
    """
    nodes, edges = (balance * total / num_processes for total in (work.num_nodes, work.num_edges))
    messages = work.rounds * (work.intra * (1 - work.cut_edges) + work.cut * work.cut_edges) * edges
    updates = work.rounds * (work.intra + work.cut * work.cut_nodes) * nodes
    propagate = work.channels * (messages / machine.messages + updates / machine.updates)
    compute = work.passes * (propagate + machine.rest * nodes)
    alone = num_processes == 1
    row = 0 if alone else halo * work.channels * work.state_bytes
    exchanges = 2 * work.passes * work.rounds * work.cut
    sent = exchanges * row
    gradient = 2 * work.parameters * 4 * (num_processes - 1) / num_processes  # of a ring, there and back
    state = work.channels * work.state_bytes
    kept = work.passes * (machine.kept * updates + work.rounds * work.cut * (0 if alone else halo))
    memory = machine.edge_bytes * edges + work.feature_bytes * nodes + state * (kept + 2 * nodes)
    return Cost(
        compute,
        0.0 if alone else sent / machine.bandwidth + machine.latency * exchanges,
        float(sent),
        2 * work.passes * work.steps * row,
        0.0 if alone else gradient / machine.bandwidth + machine.latency,
        memory,
    )
