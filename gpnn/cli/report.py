"""`gpnn report`: a run, or several side by side, as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpnn.cli.show import messages

COMPARISON = Path("comparison.html")


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders.")],
    out: Annotated[
        Path | None, typer.Option(help="Page to write (default: RUN/report.html; of several runs comparison.html).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the page's path only.")] = False,
) -> None:
    """Write the page of a finished run anew; of several runs, one page that compares them.

    Examples:

    `gpnn report runs/first`

    `gpnn report runs/first runs/second --out both.html`
    """
    if len(runs) == 1:
        from gpnn.build import report_run

        page = report_run(runs[0], out)
    else:
        from gpnn.report import write_comparison

        page = out or COMPARISON
        write_comparison(runs, page)
    if quiet:
        typer.echo(str(page))
    else:
        messages().print(f"report in {page}", markup=False)
