"""make_schedule: a schedule by its name; choose_schedule: that of a training that names none, by estimate."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpnn.check import check_choice
from gpnn.graph import Graph
from gpnn.partition import Partition
from gpnn.schedule import SCHEDULES, Schedule

if TYPE_CHECKING:
    from torch_geometric.data import Data


_GIVEN = ("data", "part", "rounds", "seed")  # arguments of a schedule that are not its options


def make_schedule(
    name: str,
    data: Data | Graph,
    part: Partition | None,
    *,
    rounds: int,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> Schedule:
    """The schedule of a name, given those of the arguments that it takes, and its own options.

    Raises:
        ValueError: for an unknown name or option.
    """
    parameters = _schedule_parameters(name)
    for option in options or {}:
        if option not in schedule_options(name):
            known = ", ".join(schedule_options(name)) or "none"
            raise ValueError(f"An option of the schedule {name!r} must be one of: {known}. Got {option!r}.")
    given = {"part": part, "rounds": rounds, "seed": seed}
    taken = {key: value for key, value in given.items() if key in parameters}
    return SCHEDULES[name](data, **taken, **(options or {}))


def schedule_options(name: str) -> dict[str, inspect.Parameter]:
    """The options of a schedule, by name.

    >>> list(schedule_options("partitioned"))
    ['intra', 'cut', 'update', 'virtual']
    """
    parameters = _schedule_parameters(name)
    return {key: value for key, value in parameters.items() if key not in _GIVEN}


def needs_partition(schedule: str) -> bool:
    """Whether a schedule is made from a partition."""
    return "part" in _schedule_parameters(schedule)


def _schedule_parameters(name: str) -> Mapping[str, inspect.Parameter]:
    check_choice("schedule", name, SCHEDULES)
    return inspect.signature(SCHEDULES[name]).parameters


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
