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
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Print the edges, neighbours and columns that carried a node's prediction.

    Each is deleted from the run's graph and the node predicted again: the effect is the probability that is lost.

    Example:

    `gpnn explain runs/first anna --num 5`
    """
    from dataclasses import asdict

    from gpnn.build import explain_run
    from gpnn.text import printable
    from gpnn.train import RunFolder

    folder = RunFolder.open(run)
    with Progress("predicting without each edge and column", silent=quiet or json):
        found = explain_run(folder, node, num)
    if json:
        print_json(asdict(found))
        return
    rows = [("edge", f"{source} → {target}", effect) for source, target, effect in found.edges]
    rows += [("neighbour", name, effect) for name, effect in found.neighbours]
    rows += [("column", name, effect) for name, effect in found.columns]
    shown = [(kind, printable(str(name)), f"{effect:.3g}") for kind, name, effect in rows]
    title = f"{printable(str(found.node))}: {printable(str(found.prediction))}, probability {found.probability:.4f}"
    output().print(table(["without", "", "probability lost"], shown, None if quiet else title))
