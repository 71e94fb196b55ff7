"""`gpnn data`: which datasets there are, fetch them, check their files, describe a graph, convert large tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpnn.cli.convert import convert_tables
from gpnn.cli.errors import USER_MISTAKE
from gpnn.cli.show import messages, nested_rows, output, print_json, print_notes, table
from gpnn.cli.words import Edges, Features, Json, Nodes, Quiet, Root, Words, complete_words, read_config
from gpnn.progress import Progress

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
