"""Reach: which nodes a change can have reached after each step of a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpnn.incremental.dynamic_graph import DynamicGraph
from gpnn.incremental.ragged import distinct
from gpnn.schedule import PhaseSpec, held_cut_phases, partitioned_phases, synchronous_phases

# schedules whose phases follow from the subgraphs of an edge's two ends: what is far from a change does not see it
LOCAL = {"synchronous": synchronous_phases, "partitioned": partitioned_phases, "held_cut": held_cut_phases}
SENDS = {"all": (True, True), "inside": (True, False), "cut": (False, True), "held": (True, True)}  # inside, cut


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
    growth = _Growth(graph, started)
    found = [growth.nodes]
    for *_, phase, repeat in round.steps():
        inside, cut = SENDS[phase.kind]
        sends = (inside, cut and (phase.kind != "held" or repeat == 0))
        growth.spread(concerned if len(found) == 1 else concerned[:0], sends)
        found.append(growth.nodes)
    return found


class _Growth:
    """A set of nodes that grows by those to which it sends."""

    def __init__(self, graph: DynamicGraph, nodes: np.ndarray) -> None:
        self.graph = graph
        self.nodes = np.unique(nodes)
        self.member = np.zeros(graph.num_slots, bool)
        self.member[self.nodes] = True
        self.waiting = [self.nodes, self.nodes]  # that have not yet sent inside their subgraph, and over the cut

    def spread(self, more: np.ndarray, sends: Sequence[bool]) -> None:
        """Add nodes, and those that the present ones send to, inside their subgraph, over the cut, or both."""
        labels, reached = self.graph.labels, [more]
        if all(sends) and self.waiting[0] is self.waiting[1]:
            reached.append(self.graph.edges_from(self.waiting[0]).dst)
        else:
            for side, sent in enumerate(sends):
                if sent:
                    edges = self.graph.edges_from(self.waiting[side])
                    reached.append(edges.dst[(labels[edges.src] != labels[edges.dst]) == bool(side)])
        none = self.nodes[:0]
        left = [none if sent else before for before, sent in zip(self.waiting, sends)]
        fresh = distinct(np.concatenate(reached))
        fresh = fresh[~self.member[fresh]]
        self.member[fresh] = True
        self.nodes = np.union1d(self.nodes, fresh) if len(fresh) else self.nodes
        self.waiting = [fresh, fresh] if all(sends) else [np.concatenate([each, fresh]) for each in left]


def required(graph: DynamicGraph, round: Round, wanted: np.ndarray) -> list[np.ndarray]:
    """The nodes whose state must be known for that of `wanted` at the end: at the start, and after each step."""
    found, labels = [np.unique(wanted)], graph.labels
    phases = list(round.steps())
    held: np.ndarray | None = None
    for *_, phase, repeat in reversed(phases):
        inside, cut = SENDS[phase.kind]
        edges = graph.edges_into(found[-1])
        crosses = labels[edges.src] != labels[edges.dst]
        if phase.kind != "held":
            senders = edges.src if inside and cut else edges.src[crosses == cut]
        else:  # what crosses was sent at the start of the phase
            senders = edges.src[~crosses]
            sent = edges.src[crosses]
            held = sent if held is None else np.concatenate([held, sent])
            if repeat == 0:
                senders, held = np.concatenate([senders, held]), None
        found.append(distinct(np.concatenate([found[-1], senders])))
    return found[::-1]
