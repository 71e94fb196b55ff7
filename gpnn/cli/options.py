"""Options that several commands share, stated once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from gpnn.cli.complete import complete_words

METAVAR = "DATASET|FOLDER|FILE|KEY=VALUE"

Words: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar=METAVAR,
        help="A dataset, a folder of tables or a graph file; and settings.",
        autocompletion=complete_words,
    ),
]
Root: TypeAlias = Annotated[Path | None, typer.Option(help="Folder of downloaded data.")]
Nodes: TypeAlias = Annotated[Path | None, typer.Option(help="Table of nodes: .csv, .tsv, .parquet or .npz.")]
Edges: TypeAlias = Annotated[
    Path | None, typer.Option(help="Table of edges: .csv, .tsv, .parquet, .npz, or METIS .graph.")
]
Features: TypeAlias = Annotated[
    Path | None, typer.Option(help="Features: .npy, .npz (dense or sparse), .parquet, .csv or .tsv.")
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only, no messages.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object, no messages.")]
