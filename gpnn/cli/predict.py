"""`gpnn predict`: a trained run's answers for a graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpnn.cli.show import messages
from gpnn.cli.words import read_config

if TYPE_CHECKING:
    from gpnn.config import Config


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of a finished training.")],
    words: Annotated[
        list[str],
        typer.Argument(metavar="DATASET|FOLDER|KEY=VALUE", help="The graph: the run's own, or another."),
    ],
    out: Annotated[Path, typer.Option(help="File to write: .parquet or .csv.")],
    root: Annotated[Path | None, typer.Option(help="Folder of downloaded data.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Write class, confidence and the probability of each class for every node.

    Example: `gpnn predict runs/first my_graph/ --out answers.csv`
    """
    from gpnn.build import build_data, load_config, predict_run
    from gpnn.train import RunFolder
    from gpnn.train.predictions import check_suffix, write_predictions

    check_suffix(out)
    trained = RunFolder.open(run)
    config = load_config(trained.config)
    table = predict_run(trained, config, build_data(_graph_config(words, root, config)))
    write_predictions(table, out)
    if not quiet:
        messages().print(f"{table.num_rows:,} predictions in {out}")


def _graph_config(words: list[str], root: Path | None, trained: Config) -> Config:
    """The data section for the graph to predict on; the run's transforms, and for its own dataset its options."""
    given = read_config(words, root=root).data
    given = replace(given, undirected=trained.data.undirected, scale_features=trained.data.scale_features)
    if given.name == trained.data.name:
        options = {**trained.data.options, **given.options}
        given = replace(given, root=given.root or trained.data.root, options=options)
    return replace(trained, data=given)
