"""`gpnn report`: a run, or several side by side, as an HTML report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpnn.cli.show import messages, print_json
from gpnn.cli.words import Json
from gpnn.progress import Progress

COMPARISON = Path("comparison.html")


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write (default: RUN/report.html; of several runs comparison.html).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the report's path only.")] = False,
    json: Json = False,
) -> None:
    """Write the report of a finished run anew; of several runs, one report that compares them.

    Examples:

    `gpnn report runs/first`

    `gpnn report runs/first runs/second --out both.html --json`
    """
    with Progress("writing the report", silent=quiet or json):
        path = _write(runs, out)
    if json:
        print_json({"file": str(path), "runs": list(map(str, runs))})
    elif quiet:
        typer.echo(str(path))
    else:
        messages().print(f"report in {path}", markup=False)


def _write(runs: list[Path], out: Path | None) -> Path:
    """Write the report of a run, or the comparison of several; where it is."""
    if len(runs) == 1:
        from gpnn.build import report_run

        return report_run(runs[0], out)
    from gpnn.report import write_comparison

    path = out or COMPARISON
    write_comparison(runs, path)
    return path
