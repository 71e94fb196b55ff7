"""Propagation schedules as data: which messages are sent when.

A builder turns a graph into a :class:`Schedule`; one engine executes every schedule.
"""

from collections.abc import Callable

from gpnn.schedule.broadcast import Comparison, Reach, broadcast, compare_schedules
from gpnn.schedule.draw import draw_schedule
from gpnn.schedule.partitioned import held_cut, held_cut_phases, partitioned, partitioned_phases
from gpnn.schedule.phase_spec import PhaseSpec
from gpnn.schedule.priority import centrality, priority
from gpnn.schedule.schedule import Phase, Schedule
from gpnn.schedule.sequential import sequential
from gpnn.schedule.spanning_trees import spanning_trees
from gpnn.schedule.synchronous import random_edges, synchronous, synchronous_phases
from gpnn.schedule.waves import waves

SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "synchronous": synchronous,
    "partitioned": partitioned,
    "held_cut": held_cut,
    "sequential": sequential,
    "spanning_trees": spanning_trees,
    "random_edges": random_edges,
    "waves": waves,
    "centrality": centrality,
    "priority": priority,
}

__all__ = [
    "SCHEDULES",
    "Comparison",
    "Phase",
    "PhaseSpec",
    "Reach",
    "Schedule",
    "broadcast",
    "compare_schedules",
    "draw_schedule",
    "held_cut_phases",
    "partitioned_phases",
    "synchronous_phases",
    *SCHEDULES,
]
