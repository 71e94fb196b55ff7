"""Commands on a graph: `gpnn partition` divides it, `gpnn schedule` shows what every schedule sends and reaches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpnn.cli.show import messages, output, print_json, table
from gpnn.cli.words import Edges, Json, Nodes, Quiet, Root, Words, check_file, complete_method, read_config
from gpnn.progress import Progress
from gpnn.text import percent

if TYPE_CHECKING:
    from rich.console import Console
    from torch_geometric.data import Data

    from gpnn.config import Config
    from gpnn.partition import Partition, PartitionRow
    from gpnn.schedule import Comparison


COLUMNS = ("edge cut", "balance of nodes", "balance of edges", "cut nodes", "halo rows, all")
MEASUREMENTS = (*COLUMNS, "seconds", "peak MiB")


def partition(
    words: Words = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Number of subgraphs (default: by size).")] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", help="The partitioner.", autocompletion=complete_method)
    ] = "flood_fill",
    out: Annotated[
        Path | None, typer.Option(help="File to write: .safetensors, or METIS's .part.K; with --shards a folder.")
    ] = None,
    shards: Annotated[int | None, typer.Option(min=1, help="Write a shard for each of this many processes.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Every method side by side.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the partitioner.")] = 0,
    nodes: Nodes = None,
    edges: Edges = None,
    root: Root = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Divide a graph into subgraphs and print the cut, the balance and the halo.

    Examples:

    `gpnn partition cora -k 10 --method flood_fill --out cora.safetensors`

    `gpnn partition web.graph -k 64 --compare`

    `gpnn partition --edges links.parquet -k 100 --method refined --json`

    `gpnn partition cora -k 10 --shards 2 --out cora_shards`
    """
    from gpnn.build import build_data, pipeline_of, resolve_structure

    if shards is not None and out is None:
        raise ValueError("`--shards` must come with `--out`, the folder to write them to. Got none.")
    also = [f"partition.method={method}", f"seed={seed}", *([f"partition.k={k}"] if k else [])]
    config = read_config(words, root=root, tables={"nodes": nodes, "edges": edges}, also=also)
    console = messages(silent=quiet or json)
    with Progress("reading the graph", silent=quiet or json):
        data = build_data(config)
        config = resolve_structure(config, data)
    found: dict[str, Any] = {"k": config.partition.k}
    if compare:
        found["methods"] = _compare(config, data, console, silent=json)
    if not compare or out is not None:
        with Progress("dividing", silent=quiet or json):
            division = pipeline_of(config).make_partition(data)
        if not compare:
            quality = division.quality(data).summary()
            found |= {"method": method, **quality}
            if not json:
                output().print(table(["", method], quality.items()))
        if shards is not None and out is not None:
            found |= _write_shards(data, division, shards, out, config.data.name, console)
        elif out is not None:
            division.save(out)
            found["file"] = str(out)
            console.print(f"{division} in {out}", markup=False)
    if json:
        print_json(found)


def _compare(config: Config, data: Data, console: Console, *, silent: bool) -> dict[str, dict[str, Any]]:
    """Every method side by side, for the eye unless `silent`, and for JSON."""
    from gpnn.build import build_partitions

    with Progress("dividing by every method", silent=silent):
        rows = build_partitions(config, data)
    if not silent:
        output().print(table(["method", *MEASUREMENTS], map(_cells, rows), title=f"K = {config.partition.k}"))
    for row in rows:
        if row.left_out is not None:
            console.print(f"{row.method} left out: {row.left_out}", markup=False)
    return {row.method: dict(zip(MEASUREMENTS, _cells(row)[1:])) for row in rows}


def _write_shards(
    data: Data, division: Partition, num_shards: int, folder: Path, name: str, console: Console
) -> dict[str, Any]:
    """Write the folder of shards; what each shard holds, for the eye and for JSON."""
    from gpnn.build.shard_data import write_data
    from gpnn.distributed import read_sizes

    index = write_data(data, division, num_shards, folder, name=name)
    sizes = read_sizes(index)
    console.print(table(["shard", *sizes[0]], [[number, *each.values()] for number, each in enumerate(sizes)]))
    command = f"torchrun --nproc-per-node {num_shards} -m gpnn train {folder}"
    console.print(f"{num_shards} shards in {folder}; train with: {command}", markup=False)
    return {"folder": str(folder), "shards": sizes}


def _cells(row: PartitionRow) -> list[Any]:
    """A method's measurements; dashes for one that was left out."""
    summary = {} if row.quality is None else row.quality.summary()
    memory = None if row.peak_memory is None else row.peak_memory / 2**20
    return [row.method, *[summary.get(column) for column in COLUMNS], row.seconds, memory]


EXACT_UP_TO = 5_000  # nodes; larger graphs follow a sample of sources
SAMPLE = 256
SCHEDULE_COLUMNS = (
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

    check_file("--draw", draw, ".svg")
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
        output().print(table(SCHEDULE_COLUMNS, map(_row, rows)))
    if draw is not None:
        draw_schedule(schedules[config.schedule.name], draw, part, seed=seed)
        console.print(f"drawn in {draw}", markup=False)


def _row(row: Comparison) -> list[Any]:
    counts = _counts(row)
    return [row.name, *({**counts, "reached": percent(counts["reached"])}[name] for name in SCHEDULE_COLUMNS[1:])]


def _counts(row: Comparison) -> dict[str, Any]:
    sent = [row.num_rounds, row.num_phases, row.num_messages, row.num_updates]
    values = [*sent, row.reach.components_coverage, row.messages_to_solve, row.updates_to_solve]
    return dict(zip(SCHEDULE_COLUMNS[1:], values))
