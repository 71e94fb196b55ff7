"""`gpnn data convert`: tables of any size into a graph on the disk."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from gpnn.cli.show import messages, output, print_json, print_notes
from gpnn.cli.words import Json, Quiet

Stage = Callable[[str, int, int], None]


def convert_tables(
    edges: Annotated[str, typer.Argument(help="Edges: a file, a folder or a quoted pattern; or a database.")],
    paths: Annotated[list[str], typer.Argument(metavar="[NODES] OUT", help="Nodes, likewise; and the folder to make.")],
    features: Annotated[
        Path | None, typer.Option(help="Features: .npy (streamed), .npz, .parquet, .csv, .tsv.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels: .npy of classes or numbers, or a matrix.")] = None,
    nodes_table: Annotated[
        str, typer.Option("--nodes", help='Of a database: table, view or query of the nodes ("": none).')
    ] = "nodes",
    edges_table: Annotated[
        str, typer.Option("--edges", help="Of a database: table, view or query of the edges.")
    ] = "edges",
    id: Annotated[str, typer.Option(help="The column of the nodes that names them.")] = "id",
    source: Annotated[str, typer.Option(help="The column of the edges that messages come from.")] = "source",
    target: Annotated[str, typer.Option(help="The column of the edges that messages go to.")] = "target",
    type: Annotated[str, typer.Option(help="The column of the edges that holds their type.")] = "type",
    weight: Annotated[str, typer.Option(help="The column of the edges that holds their weight.")] = "weight",
    label: Annotated[str, typer.Option(help="The column of the nodes that holds the label.")] = "label",
    categorical: Annotated[str, typer.Option(help="Columns, by commas, that are categories.")] = "",
    ignore: Annotated[str, typer.Option(help="Columns of nodes or edges, by commas, to leave out.")] = "",
    numbers: Annotated[str, typer.Option(help="Columns of numbers: standard (scaled) or raw.")] = "standard",
    task: Annotated[str, typer.Option(help="What the label is: auto, classification or regression.")] = "auto",
    seed: Annotated[int, typer.Option(help="Of the split, where the nodes have none.")] = 0,
    undirected: Annotated[bool, typer.Option("--undirected", help="Add the reverse of every edge.")] = False,
    duplicates: Annotated[str, typer.Option(help="Equal edges: auto, keep, merge or sum (of weights).")] = "auto",
    dtype: Annotated[str, typer.Option(help="Of dense features: float32, float16 or int8.")] = "float32",
    memory: Annotated[str, typer.Option(help="What the conversion may take, such as 16GiB.")] = "4GB",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads (default: one per core).")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Turn tables of any size into a graph on the disk, which `gpnn train` maps instead of reading it.

    The same command continues a conversion that was ended.

    Examples:

    `gpnn data convert edges.parquet nodes.parquet graph/`

    `gpnn data convert "edges-*.csv" people.csv graph/ --undirected --memory 16GiB`

    `gpnn data convert people.duckdb graph/ --edges "SELECT a AS source, b AS target FROM friends"`

    `gpnn data convert edge_index.npy graph/ --features x.npy --labels y.npy --dtype float16`
    """
    from gpnn.check import parse_memory
    from gpnn.data.convert import ConvertSettings, convert
    from gpnn.data.tables.vocabulary import Choices

    if len(paths) > 2:
        raise ValueError(f"There must be EDGES, maybe NODES, and OUT; quote a pattern. Got {len(paths) + 1} paths.")
    choices = Choices(
        label, categorical, ignore, numbers, undirected, seed, None, task,
        id, source, target, type, weight,
    )  # fmt: skip
    settings = ConvertSettings(undirected, duplicates, dtype, parse_memory("memory", memory) or 4e9, threads)
    start = time.perf_counter()
    with stages(silent=quiet or json) as progress:
        stored = convert(
            edges,
            paths[0] if len(paths) == 2 else None,
            paths[-1],
            features=features,
            labels=labels,
            choices=choices,
            settings=settings,
            selected=(nodes_table, edges_table),
            progress=progress,
        )
    facts = {"nodes": stored.num_nodes, "edges": stored.num_edges, "symmetric": stored.symmetric}
    print_notes(stored.facts["notes"], messages(silent=quiet or json))
    seconds = time.perf_counter() - start
    if json:
        print_json({**facts, "folder": paths[-1], "seconds": seconds})
        return
    kind = "symmetric" if stored.symmetric else "directed"
    output().print(
        f"{paths[-1]}: {stored.num_nodes:,} nodes, {stored.num_edges:,} edges, {kind}, in {seconds:.0f} s", markup=False
    )


@contextmanager
def stages(*, silent: bool) -> Iterator[Stage]:
    """A bar for each stage where there is a terminal to draw it on, else a line for each."""
    if silent or not sys.stderr.isatty():
        yield Lines(silent=silent)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=messages(), expand=True) as bars:
        tasks: dict[str, int] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)  # type: ignore[arg-type]

        yield report


class Lines:
    """A line as each stage begins, for logs."""

    def __init__(self, *, silent: bool) -> None:
        self.silent, self.stage = silent, ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self.stage:
            messages(silent=self.silent).print(f"{stage}: {total:,} pieces", markup=False)
        self.stage = stage
