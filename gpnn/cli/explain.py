"""`gpnn explain`: why a trained run gives a node its class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpnn.cli.show import output, print_json, table
from gpnn.cli.words import Json, Quiet
from gpnn.progress import Progress


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of a finished training.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="Id of the node, or its row where nodes have none.")],
    *,
    num: Annotated[int, typer.Option(help="Edges, neighbours and columns to list, at most.")] = 10,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Page with a picture to write, .html.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Print the edges, neighbours and columns that carried a node's prediction.

    Each is deleted from the run's graph and the node predicted again: the effect is the probability that is lost.

    Example:

    `gpnn explain runs/first anna --num 5 --out why.html`
    """
    from dataclasses import asdict

    from gpnn.build import explain_run
    from gpnn.text import printable
    from gpnn.train import RunFolder

    if out is not None:
        from gpnn.report import check_extra, write_explanation

        check_extra()
        if out.suffix != ".html":
            raise ValueError(f"`--out` must end in .html. Got {str(out)!r}.")
    folder = RunFolder.open(run)
    with Progress("predicting without each edge and column", silent=quiet or json):
        found = explain_run(folder, node, num)
    if out is not None:
        write_explanation(found, out)
    if json:
        print_json(asdict(found))
        return
    shown = [(kind, printable(name), f"{effect:.3g}") for kind, name, effect in found.rows()]
    output().print(table(["without", "", "probability lost"], shown, None if quiet else printable(found.title)))
