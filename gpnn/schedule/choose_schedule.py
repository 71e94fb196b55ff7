"""choose_schedule: the schedule of a training that names none, by estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LARGE_NODES = 1 << 18  # of smaller graphs the states fit a cache, and an exchange is mostly latency
DEEP_ROUNDS = 4  # fewer leave no two rounds of several steps
LONG_ROUNDS = 8  # from here on messages over the cut may be held for four steps instead of two


@dataclass(frozen=True)
class ScheduleChoice:
    """A schedule by its name.

    Attributes:
        name: a name of :data:`gpnn.schedule.SCHEDULES`.
        rounds: number of rounds T.
        options: the schedule's own.
    """

    name: str
    rounds: int
    options: Mapping[str, Any] = field(default_factory=dict)


def choose_schedule(num_nodes: int, rounds: int, *, num_processes: int = 1, streamed: bool = False) -> ScheduleChoice:
    """The partition schedule of the paper or, where rows travel far in a deep model, the cut held.

    :func:`~gpnn.schedule.held_cut` takes as many steps as the partition schedule has rounds, two or four of them per
    round. Several processes then exchange rows half or a quarter as often, and the streamed runner reads a subgraph's
    rows as much less often. Small graphs, shallow models and the fused runner of one process gain nothing.

    Args:
        num_nodes: N, of the whole graph.
        rounds: T of the partition schedule.
        num_processes: how many processes share the graph.
        streamed: whether subgraphs are computed one after the other.

    >>> choose_schedule(2708, 5, num_processes=4).name
    'partitioned'
    >>> choose_schedule(10_000_000, 5, num_processes=4)
    ScheduleChoice(name='held_cut', rounds=3, options={'intra': 2})
    """
    moves = num_processes > 1 or streamed
    if not moves or num_nodes < LARGE_NODES or rounds < DEEP_ROUNDS:
        return ScheduleChoice("partitioned", rounds)
    intra = 4 if rounds >= LONG_ROUNDS else 2
    return ScheduleChoice("held_cut", -(-rounds // intra), {"intra": intra})
