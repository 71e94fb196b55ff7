"""`gpnn export`: a trained run's model over its graph as a program that needs torch alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpnn.cli.show import messages, print_json
from gpnn.cli.words import Json, Quiet
from gpnn.progress import Progress


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of a finished training.")],
    out: Annotated[Path, typer.Argument(metavar="FILE.pt2", help="File to write.")],
    *,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write the model over the run's own graph as a program that `torch.export.load` reads without gpnn.

    The program takes the features of all nodes and gives their probabilities, or a number and its interval.

    Example:

    `gpnn export runs/first model.pt2`
    """
    from gpnn.build import export_run
    from gpnn.train import RunFolder

    folder = RunFolder.open(run)
    with Progress("tracing the model", silent=quiet or json):
        facts = export_run(folder, out)
    if json:
        print_json({"file": str(out), **facts})
        return
    takes = "nothing" if facts["x"] is None else "features [{}, {}]".format(*facts["x"])
    messages(silent=quiet).print(f"{out} takes {takes}; torch.export.load reads it", markup=False)
