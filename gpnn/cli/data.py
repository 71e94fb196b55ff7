"""`gpnn data`: which datasets there are, fetch them, check their files, describe a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpnn.cli.show import messages, output, table
from gpnn.cli.words import read_config

data_app = typer.Typer(no_args_is_help=True, help="List, fetch, check and describe datasets.")

Root = Annotated[Path | None, typer.Option(help="Folder of downloaded data.")]


@data_app.command("list")
def list_(root: Root = None) -> None:
    """List the datasets, what each takes as options, and whether its files are here."""
    from gpnn.data import list_datasets

    rows = []
    for info in list_datasets(root):
        options = " ".join(f"{name}={value}" for name, value in info.options.items())
        rows.append((info.name, "yes" if info.present else "no", info.description, options))
    result = table(["dataset", "here", "what it is", "options"], rows)
    for column in result.columns:
        column.justify = "left"
    output().print(result)


@data_app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="DATASET...", help="Datasets to fetch.")], root: Root = None
) -> None:
    """Download datasets and verify their checksums; what is here already is left alone."""
    from gpnn.data import data_folder, fetch_dataset

    for name in names:
        files = fetch_dataset(name, root)
        messages().print(f"{name}: {len(files)} files in {data_folder(root)}" if files else f"{name}: nothing to fetch")


@data_app.command()
def check(
    names: Annotated[list[str], typer.Argument(metavar="DATASET|FOLDER...", help="What to check.")],
    root: Root = None,
) -> None:
    """Verify the files of datasets by their checksums, or read folders of tables and check them.

    Exits with 2 when a file is missing or damaged.
    """
    from gpnn.data import DATASETS, load_dataset, verify_files

    bad = False
    for name in names:
        if name in DATASETS:
            states = verify_files(name, root)
            bad = bad or any(state in ("missing", "corrupt") for state in states.values())
            rows = list(states.items()) or [(name, "needs no files")]
        else:
            load_dataset(name)
            rows = [(name, "ok")]
        output().print(table(["file", "state"], rows))
    if bad:
        raise typer.Exit(2)


@data_app.command()
def describe(
    words: Annotated[list[str] | None, typer.Argument(metavar="DATASET|FOLDER|KEY=VALUE", help="The graph.")] = None,
    root: Root = None,
) -> None:
    """Print what was understood of a graph, and what GPNN would choose for it."""
    from gpnn.build import build_data, describe_data

    config = read_config(words, root=root)
    rows = describe_data(config, build_data(config)).items()
    output().print(table(["", config.data.name], rows))
