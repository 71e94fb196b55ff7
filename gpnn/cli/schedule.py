"""`gpnn schedule`: what every schedule sends, updates and reaches on a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpnn.cli.show import messages, output, print_json, table
from gpnn.cli.words import Edges, Json, Nodes, Quiet, Root, Words, read_config
from gpnn.progress import Progress
from gpnn.text import percent

if TYPE_CHECKING:
    from gpnn.schedule import Comparison

EXACT_UP_TO = 5_000  # nodes; larger graphs follow a sample of sources
SAMPLE = 256
COLUMNS = (
    "schedule", "rounds", "phases", "messages", "updates", "reached", "messages to solve", "updates to solve",
)  # fmt: skip


def schedule(
    words: Words = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Number of subgraphs (default: by size).")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds (default: by size).")] = None,
    sources: Annotated[
        int | None, typer.Option(min=1, help="Nodes whose broadcast is followed (default: all of a small graph).")
    ] = None,
    draw: Annotated[Path | None, typer.Option(help="SVG of the chosen schedule's phases (small graphs).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of partition, schedules and sources.")] = 0,
    nodes: Nodes = None,
    edges: Edges = None,
    root: Root = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare the messages, updates and broadcast of all schedules on a graph.

    The broadcast problem: information of every node has reached every other node of its component.

    Examples:

    `gpnn schedule chain data.num_nodes=12 data.label_rate=0.5 -k 3 schedule.intra=2 --draw chain.svg`

    `gpnn schedule my_graph/ --rounds 5 --json`
    """
    from gpnn.build import build_data, build_schedules, resolve_structure
    from gpnn.graph import as_graph
    from gpnn.schedule import compare_schedules
    from gpnn.schedule.draw import draw_schedule

    also = [f"partition.k={k}"] if k else []
    also += [f"schedule.rounds={rounds}"] if rounds else []
    tables = {"nodes": nodes, "edges": edges}
    config = read_config(words, root=root, tables=tables, also=[*also, f"seed={seed}"])
    console = messages(silent=quiet or json)
    with Progress("reading the graph", silent=quiet or json):
        data = build_data(config)
    config, graph = resolve_structure(config, data), as_graph(data)
    schedules, refused, part = build_schedules(config, data)
    for name, reason in refused.items():
        console.print(f"{name}: {reason}", markup=False)
    if sources is None and graph.num_nodes > EXACT_UP_TO:
        sources = SAMPLE
        console.print(f"broadcast of {SAMPLE} of the {graph.num_nodes:,} nodes; --sources follows more")
    with Progress("following the broadcast", silent=quiet or json):
        rows = compare_schedules(graph, schedules, sources, seed)
    if json:
        print_json({row.name: _counts(row) for row in rows})
    else:
        output().print(table(COLUMNS, map(_row, rows)))
    if draw is not None:
        draw_schedule(schedules[config.schedule.name], draw, part, seed=seed)
        console.print(f"drawn in {draw}", markup=False)


def _row(row: Comparison) -> list[Any]:
    counts = _counts(row)
    return [row.name, *({**counts, "reached": percent(counts["reached"])}[name] for name in COLUMNS[1:])]


def _counts(row: Comparison) -> dict[str, Any]:
    sent = [row.num_rounds, row.num_phases, row.num_messages, row.num_updates]
    values = [*sent, row.reach.components_coverage, row.messages_to_solve, row.updates_to_solve]
    return dict(zip(COLUMNS[1:], values))
