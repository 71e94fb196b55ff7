"""make_schedule: a schedule by its name, with those of the arguments that it takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
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
