"""`gpnn schedule`: what every schedule sends, updates and reaches on a graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpnn.cli.show import messages, output, percent, table
from gpnn.cli.words import read_config

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.config import Config
    from gpnn.partition import Partition
    from gpnn.schedule import Comparison, Schedule

EXACT_UP_TO = 5_000  # nodes; larger graphs follow a sample of sources
SAMPLE = 256
COLUMNS = (
    "schedule", "rounds", "phases", "messages", "updates", "reached", "messages to solve", "updates to solve",
)  # fmt: skip


def schedule(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATASET|FOLDER|KEY=VALUE", help="The graph, and settings."),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Number of subgraphs (default: by size).")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds (default: by size).")] = None,
    sources: Annotated[
        int | None, typer.Option(min=1, help="Nodes whose broadcast is followed (default: all of a small graph).")
    ] = None,
    draw: Annotated[Path | None, typer.Option(help="SVG of the chosen schedule's phases (small graphs).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of partition, schedules and sources.")] = 0,
    root: Annotated[Path | None, typer.Option(help="Folder of downloaded data.")] = None,
) -> None:
    """Compare the messages, updates and broadcast of all schedules on a graph.

    The broadcast problem: information of every node has reached every other node of its component.

    Example: `gpnn schedule chain data.num_nodes=12 data.label_rate=0.5 -k 3 schedule.intra=2 --draw chain.svg`
    """
    from gpnn.build import build_data, build_partition, resolve
    from gpnn.graph import as_graph
    from gpnn.schedule import compare_schedules

    also = [f"partition.k={k}"] if k else []
    also += [f"schedule.rounds={rounds}"] if rounds else []
    config = read_config(words, root=root, also=[*also, f"seed={seed}"])
    data = build_data(config)
    config, graph = resolve(config, data), as_graph(data)
    part = build_partition(_named(config, "partitioned"), data)
    schedules = _schedules(config, data, part)
    if sources is None and graph.num_nodes > EXACT_UP_TO:
        sources = SAMPLE
        messages().print(f"broadcast of {SAMPLE} of the {graph.num_nodes:,} nodes; --sources follows more")
    rows = compare_schedules(graph, schedules, sources, seed)
    output().print(table(COLUMNS, map(_row, rows)))
    if draw is not None:
        _draw(schedules[config.schedule.name], draw, part, seed)


def _schedules(config: Config, data: Data, part: Partition | None) -> dict[str, Schedule]:
    """Every schedule that the graph allows; the configured one with its options, which must suit it."""
    from gpnn.build import build_schedule
    from gpnn.schedule import SCHEDULES

    schedules = {}
    for name in SCHEDULES:
        chosen = name == config.schedule.name
        try:
            schedules[name] = build_schedule(config if chosen else _named(config, name), data, part)
        except ValueError as error:
            if chosen:
                raise
            messages().print(f"{name}: {error}")
    return schedules


def _named(config: Config, name: str) -> Config:
    """The configuration with another schedule; options stay with the schedule that they were given to."""
    if name == config.schedule.name:
        return config
    return replace(config, schedule=replace(config.schedule, name=name, options={}))


def _row(row: Comparison) -> list[Any]:
    reached = percent(row.reach.components_coverage)
    counts = [row.num_rounds, row.num_phases, row.num_messages, row.num_updates]
    return [row.name, *counts, reached, row.messages_to_solve, row.updates_to_solve]


def _draw(schedule: Schedule, path: Path, part: Partition | None, seed: int) -> None:
    from gpnn.schedule.draw import draw_schedule

    draw_schedule(schedule, path, part, seed=seed)
    messages().print(f"drawn in {path}")
