"""Broadcast: what a schedule sends on a graph until every node has reached every other (the paper, section 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.harness.kinds.kind import SMALL_GRAPH, Kind, Metrics
from experiments.harness.kinds.training import read_config
from experiments.harness.settings import Settings, lay_over

if TYPE_CHECKING:
    from gpnn.partition import Partition
    from gpnn.schedule import Schedule

DRAWN = ("chain", "grid")  # graphs that are small already


def run_broadcast(settings: Settings, seed: int) -> Metrics:
    """Messages, updates and steps of the schedule, and those up to the step that solves broadcast (None: unsolved).

    Settings are a configuration's [data], [partition] and [schedule].
    """
    from gpnn.schedule import compare_schedules

    schedule, _ = build_schedule_of(settings, seed)
    (row,) = compare_schedules(schedule.graph, {"it": schedule})
    return {
        "num_messages": row.num_messages,
        "num_updates": row.num_updates,
        "num_steps": row.num_steps,
        "messages_to_solve": row.messages_to_solve,
        "updates_to_solve": row.updates_to_solve,
        "pairs_reached": row.reach.components_coverage,
    }


def build_schedule_of(settings: Settings, seed: int) -> tuple[Schedule, Partition | None]:
    """The schedule that a cell's settings describe, and its partition where it has one."""
    from gpnn.build import build_data, pipeline_of, resolve

    config, problems = read_config(settings, seed)
    if problems:
        raise ValueError(" ".join(problems))
    data = build_data(config)
    pipeline = pipeline_of(resolve(config, data))
    partition = pipeline.divide(data)
    return pipeline.make_schedule(data, partition), partition


def _shrink(settings: Settings) -> Settings:
    if settings["data"]["name"] in DRAWN:
        return settings
    return lay_over({**settings, "data": SMALL_GRAPH}, {"partition": {"k": 4}})


BROADCAST = Kind(run_broadcast, _shrink, lambda settings: read_config(settings)[1])
