"""Schedules side by side: what they send, what they update, and when they solve broadcast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from gpnn.graph import GraphLike, as_graph
from gpnn.schedule.broadcast import Reach, broadcast
from gpnn.schedule.schedule import Schedule


@dataclass(frozen=True)
class Comparison:
    """One schedule's row of the table.

    Attributes:
        name: what the caller calls the schedule.
        num_rounds: rounds T.
        num_phases: phases in all rounds.
        num_steps: steps in all rounds, one per repeat of a phase: the depth of the computation.
        num_messages: messages sent in all rounds.
        num_updates: node updates done in all rounds.
        reach: how far it carries information.
    """

    name: str
    num_rounds: int
    num_phases: int
    num_steps: int
    num_messages: int
    num_updates: int
    reach: Reach

    @property
    def messages_to_solve(self) -> int | None:
        """Messages until every node has reached every other of its component; None when they never do."""
        return self.reach.components_messages if self.reach.components_solved else None

    @property
    def updates_to_solve(self) -> int | None:
        """Likewise node updates."""
        return self.reach.components_updates if self.reach.components_solved else None


def compare_schedules(
    data: GraphLike, schedules: Mapping[str, Schedule], sources: int | Tensor | None = None, seed: int = 0
) -> list[Comparison]:
    """One row per schedule, in the order given.

    Args:
        data: the graph that all the schedules were built for.
        schedules: name → schedule.
        sources: as in :func:`broadcast`.
        seed: as in :func:`broadcast`.

    >>> from gpnn import Graph
    >>> from gpnn.schedule import sequential, synchronous
    >>> chain = Graph([0, 1, 2], [1, 2, 3], num_nodes=4).to_undirected()
    >>> rows = compare_schedules(chain, {"sync": synchronous(chain, 3), "seq": sequential(chain, 1)})
    >>> [(row.name, row.messages_to_solve, row.updates_to_solve) for row in rows]
    [('sync', 18, 12), ('seq', 6, 6)]
    """
    graph = as_graph(data)
    return [_row(name, schedule, broadcast(graph, schedule, sources, seed)) for name, schedule in schedules.items()]


def _row(name: str, schedule: Schedule, reach: Reach) -> Comparison:
    return Comparison(
        name,
        schedule.num_rounds,
        schedule.num_phases,
        schedule.num_steps,
        schedule.num_messages,
        schedule.num_updates,
        reach,
    )
