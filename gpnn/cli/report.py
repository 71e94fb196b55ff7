"""`gpnn report`: a run, or several side by side, as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpnn.cli.options import Json
from gpnn.cli.progress import waiting
from gpnn.cli.show import messages, print_json

COMPARISON = Path("comparison.html")


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders.")],
    out: Annotated[
        Path | None, typer.Option(help="Page to write (default: RUN/report.html; of several runs comparison.html).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the page's path only.")] = False,
    json: Json = False,
) -> None:
    """Write the page of a finished run anew; of several runs, one page that compares them.

    Examples:

    `gpnn report runs/first`

    `gpnn report runs/first runs/second --out both.html --json`
    """
    with waiting("writing the page", silent=quiet or json):
        page = _write(runs, out)
    if json:
        print_json({"file": str(page), "runs": list(map(str, runs))})
    elif quiet:
        typer.echo(str(page))
    else:
        messages().print(f"report in {page}", markup=False)


def _write(runs: list[Path], out: Path | None) -> Path:
    """Write the page of a run, or the comparison of several; where it is."""
    if len(runs) == 1:
        from gpnn.build import report_run

        return report_run(runs[0], out)
    from gpnn.report import write_comparison

    page = out or COMPARISON
    write_comparison(runs, page)
    return page
