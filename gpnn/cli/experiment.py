"""`gpnn experiment`: run a table or figure from its TOML file and write its report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpnn.cli.show import messages, output, table

if TYPE_CHECKING:
    from gpnn.experiment import Cell, Experiment


def experiment(
    name: Annotated[str, typer.Argument(help="An experiment's name, a TOML file, or `list`.")],
    quick: Annotated[bool, typer.Option("--quick", help="One seed, a small graph, a few epochs.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes, each with one thread.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder of results (default: results beside the file).")] = None,
    folder: Annotated[Path, typer.Option(help="Folder of experiments.")] = Path("experiments"),
) -> None:
    """Run what is not finished of an experiment, then write its table, figures and picture.

    Example: `gpnn experiment ours --jobs 8`
    """
    from gpnn.experiment import Results, read_experiment, run_experiment, write_report
    from gpnn.experiment.machine import describe_machine

    if name == "list":
        _list(folder, out or folder / "results")
        return
    file = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    chosen = read_experiment(file)
    out = out or file.parent / "results"
    if quick:
        chosen, out = chosen.quick_form(), out / "quick"
    results = Results.open(out / "cells" / f"{chosen.name}.jsonl")
    results.adopt(chosen.cells(), chosen.measure)
    run_experiment(chosen, results, jobs=jobs, progress=_show_cell)
    files = write_report(chosen, results, out, command=shlex.join(["gpnn", *sys.argv[1:]]), machine=describe_machine())
    output().print((out / f"{chosen.name}.md").read_text(encoding="utf-8"), markup=False, soft_wrap=True)
    messages().print(f"Written: {', '.join(map(str, files))}")


def _show_cell(cell: Cell, finished: int, number: int) -> None:
    messages().print(f"{finished}/{number}  {cell.row} · {cell.column} · seed {cell.seed}", markup=False)


def _list(folder: Path, out: Path) -> None:
    from gpnn.experiment import find_experiments

    found = find_experiments(folder)
    if not found:
        raise ValueError(f"`--folder` must hold experiments as TOML files. Got {folder}.")
    rows = [(each.name, each.title, *_count(each, out)) for each in found]
    output().print(table(["experiment", "title", "runs", "finished"], rows))


def _count(each: Experiment, out: Path) -> tuple[int, int]:
    from gpnn.experiment import Results

    results = Results.open(out / "cells" / f"{each.name}.jsonl")
    keys = {cell.key for cell in each.cells()}
    return len(keys), sum(key in results.outcomes for key in keys)
