"""Reach: how far a schedule carries information, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpnn.schedule.schedule import Schedule


@dataclass(frozen=True)
class Reach:
    """How far a schedule carries information.

    A step is one repeat of one phase. Counts run up to and including the step that solved the problem; where
    it is not solved, over the whole schedule. Virtual nodes pass information on but do not count as reached.

    Attributes:
        solved: whether information from every source has reached every node.
        coverage: fraction of the (source, other node) pairs that were reached.
        num_steps: steps done.
        num_rounds: rounds begun.
        num_messages: messages sent.
        num_updates: node updates done.
        num_sources: number of nodes whose information was followed.
        num_components: weakly connected components, joined by virtual nodes where the schedule has any. With
            more than one, `solved` stays False.
        components_solved: whether every source has reached every node of its own component.
        components_coverage: fraction of the pairs within components that were reached.
        components_messages: messages sent up to and including the step that solved every component.
        components_updates: likewise node updates.
    """

    solved: bool
    coverage: float
    num_steps: int
    num_rounds: int
    num_messages: int
    num_updates: int
    num_sources: int
    num_components: int
    components_solved: bool
    components_coverage: float
    components_messages: int
    components_updates: int


def tally(schedule: Schedule, reached: int, within: int, last: int, num_sources: int, num_components: int) -> Reach:
    """The counts, from the pairs reached, the pairs within components and the last step that reached any."""
    ends = _step_ends(schedule)
    everywhere = num_sources * (schedule.graph.num_nodes - schedule.num_virtual - 1)
    solved, components_solved = reached == everywhere, reached == within
    steps = last if solved else len(ends.messages) - 1
    component_steps = last if components_solved else len(ends.messages) - 1
    return Reach(
        solved,
        reached / everywhere if everywhere else 1.0,
        steps,
        int(ends.rounds[steps]),
        int(ends.messages[steps]),
        int(ends.updates[steps]),
        num_sources,
        num_components,
        components_solved,
        reached / within if within else 1.0,
        int(ends.messages[component_steps]),
        int(ends.updates[component_steps]),
    )


class _Ends(NamedTuple):
    """What was done by the end of each step; entry 0 is before the first."""

    rounds: np.ndarray  # [S + 1]
    messages: np.ndarray  # [S + 1]
    updates: np.ndarray  # [S + 1]


def _step_ends(schedule: Schedule) -> _Ends:
    steps = [
        (number, phase.edges.numel(), phase.nodes.numel())
        for number, phases in enumerate(schedule.rounds, start=1)
        for phase in phases
        for _ in range(phase.repeat)
    ]
    rounds, messages, updates = np.array([(0, 0, 0), *steps], np.int64).T
    return _Ends(rounds, messages.cumsum(), updates.cumsum())
