"""All schedules, or all partitioners, side by side on a graph, with the settings of a configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpnn.build.objects import pipeline_of
from gpnn.config import Config
from gpnn.partition import PARTITIONERS, Partition, PartitionRow, compare_partitions
from gpnn.schedule import SCHEDULES, Schedule

if TYPE_CHECKING:
    from torch_geometric.data import Data


def build_schedules(config: Config, data: Data) -> tuple[dict[str, Schedule], dict[str, str], Partition | None]:
    """Every schedule that the graph allows, why it does not allow the others, and the partition that they share.

    Options stay with the schedule that they were given to.

    Raises:
        ValueError: when the configured schedule is one of the others.
    """
    part = pipeline_of(_named(config, "partitioned")).divide(data)
    schedules, refused = {}, {}
    for name in SCHEDULES:
        try:
            schedules[name] = pipeline_of(_named(config, name)).make_schedule(data, part)
        except ValueError as error:
            if name == config.schedule.name:
                raise
            refused[name] = str(error)
    return schedules, refused, part


def build_partitions(config: Config, data: Data) -> list[PartitionRow]:
    """A row per partitioner: the configured one, with its options, first."""
    chosen = config.partition
    others = [name for name in PARTITIONERS if name not in (chosen.method, "given", "auto")]
    methods = {chosen.method: chosen.options, **{name: {} for name in others}}
    return compare_partitions(data, int(chosen.k), methods, config.seed)


def _named(config: Config, name: str) -> Config:
    """The configuration with another schedule, without options."""
    if name == config.schedule.name:
        return config
    return replace(config, schedule=replace(config.schedule, name=name, options={}))
