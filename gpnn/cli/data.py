"""`gpnn data`: which datasets there are, fetch them, check their files, describe a graph, convert large tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from gpnn.cli.errors import USER_MISTAKE
from gpnn.cli.show import messages, nested_rows, output, print_json, print_notes, table
from gpnn.cli.words import Edges, Features, Json, Nodes, Quiet, Root, Words, complete_words, read_config
from gpnn.progress import Progress

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
        id=id, source=source, target=target, type=type, weight=weight, label=label, categorical=categorical,
        ignore=ignore, numbers=numbers, undirected=undirected, task=task, seed=seed,
    )  # fmt: skip
    settings = ConvertSettings(undirected, duplicates, dtype, parse_memory("memory", memory) or 4e9, threads)
    *nodes, out = paths
    start = time.perf_counter()
    with stages(silent=quiet or json) as progress:
        stored = convert(
            edges,
            nodes[0] if nodes else None,
            out,
            features=features,
            labels=labels,
            choices=choices,
            settings=settings,
            selected=(nodes_table, edges_table),
            progress=progress,
        )
    seconds = time.perf_counter() - start
    print_notes(stored.facts["notes"], messages(silent=quiet or json))
    if json:
        facts = {"nodes": stored.num_nodes, "edges": stored.num_edges, "symmetric": stored.symmetric}
        print_json({**facts, "folder": out, "seconds": seconds})
        return
    sizes = f"{stored.num_nodes:,} nodes, {stored.num_edges:,} edges, {'symmetric' if stored.symmetric else 'directed'}"
    output().print(f"{out}: {sizes}, in {seconds:.0f} s", markup=False)


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


data_app = typer.Typer(no_args_is_help=True, help="List, fetch, check, describe and convert datasets.")
data_app.command("convert")(convert_tables)

Names = Annotated[
    list[str], typer.Argument(metavar="DATASET|FOLDER...", help="What it is about.", autocompletion=complete_words)
]


@data_app.command("list")
def list_(root: Root = None, quiet: Quiet = False, json: Json = False) -> None:
    """List the datasets, what each takes as options, and whether its files are here; quiet, their names only.

    Example: `gpnn data list --json`
    """
    from gpnn.data import list_datasets

    infos = list_datasets(root)
    if json:
        parts = ("here", "description", "options")
        print_json({info.name: dict(zip(parts, (info.present, info.description, info.options))) for info in infos})
        return
    if quiet:
        typer.echo("\n".join(info.name for info in infos))
        return
    rows = []
    for info in infos:
        options = " ".join(f"{name}={value}" for name, value in info.options.items())
        rows.append((info.name, "yes" if info.present else "no", info.description, options))
    result = table(["dataset", "here", "what it is", "options"], rows)
    for column in result.columns:
        column.justify = "left"
    output().print(result)


@data_app.command()
def fetch(names: Names, root: Root = None, quiet: Quiet = False, json: Json = False) -> None:
    """Download datasets and verify their checksums; what is here already is left alone.

    Example: `gpnn data fetch cora citeseer pubmed`
    """
    from gpnn.data import data_folder, fetch_dataset

    fetched: dict[str, list[str]] = {}
    for name in names:
        files = fetch_dataset(name, root)
        fetched[name] = [str(file) for file in files]
        what = f"{name}: {len(files)} files in {data_folder(root)}" if files else f"{name}: nothing to fetch"
        messages(silent=quiet or json).print(what, markup=False)
    if json:
        print_json(fetched)


@data_app.command()
def check(names: Names, root: Root = None, quiet: Quiet = False, json: Json = False) -> None:
    """Verify the files of datasets and converted graphs by their digests; read tables and graph files and check them.

    Exits with 2 when a file is missing, damaged or wrong.

    Example: `gpnn data check cora my_graph/`
    """
    from gpnn.data import DATASETS, load_dataset, verify_files
    from gpnn.data.stored import check_stored, is_stored, open_stored

    found: dict[str, dict[str, str]] = {}
    for name in names:
        if name in DATASETS:
            found[name] = verify_files(name, root) or {name: "needs no files"}
        elif is_stored(Path(name)):
            with Progress(f"computing the digests of {name}", silent=quiet or json):
                found[name] = check_stored(open_stored(name))
        else:
            load_dataset(name)
            found[name] = {name: "ok"}
    if json:
        print_json(found)
    else:
        for states in found.values():
            shown = {file: state for file, state in states.items() if not quiet or state in ("missing", "corrupt")}
            if shown:
                output().print(table(["file", "state"], list(shown.items())))
    if any(state in ("missing", "corrupt") for states in found.values() for state in states.values()):
        raise typer.Exit(USER_MISTAKE)


@data_app.command()
def describe(
    words: Words = None,
    nodes: Nodes = None,
    edges: Edges = None,
    features: Features = None,
    root: Root = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Print what was understood of a graph, and what GPNN would choose for it.

    Examples:

    `gpnn data describe my_graph/`

    `gpnn data describe --nodes people.csv --edges friends.parquet --features vectors.npy`

    `gpnn data describe network.graphml data.label=community --json`
    """
    from gpnn.build import build_data, describe_data, describe_stored
    from gpnn.data import load_dataset
    from gpnn.data.stored import is_stored
    from gpnn.train.notes import Facts, Note, take_notes

    config = read_config(words, root=root, tables={"nodes": nodes, "edges": edges, "features": features})
    with Progress("reading the graph", silent=quiet or json):
        if is_stored(Path(config.data.name)):
            data = load_dataset(config.data.name, check=False)
            description, notes = describe_stored(config, data), list(map(Note, data.notes))
        else:
            data = build_data(config)
            facts = Facts.of(data, message=config.model.message)
            description, notes = describe_data(config, data, facts), take_notes(facts, data.get("notes"))
    if json:
        print_json({**description, "notes": list(map(str, notes))})
        return
    output().print(table(["", Path(config.data.name).name], nested_rows(description)))
    print_notes(notes, messages(silent=quiet))
