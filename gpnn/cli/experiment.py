"""`gpnn experiment`: run a table or figure from its TOML file and write its report.

Experiments, their code and their baselines stand in a clone of the repository, not in the installed package.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpnn.cli.show import messages, output, print_json, table
from gpnn.cli.words import Json, Quiet

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.harness import Cell, Experiment

COLUMNS = ("title", "runs", "finished")


def experiment(
    name: Annotated[str, typer.Argument(help="An experiment's name, a TOML file, or `list`.")],
    quick: Annotated[bool, typer.Option("--quick", help="One seed, a small graph, a few epochs.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes, each with one thread.")] = 1,
    row: Annotated[list[str] | None, typer.Option(help="A row to run (repeatable; default: all).")] = None,
    column: Annotated[list[str] | None, typer.Option(help="A column to run (repeatable; default: all).")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Run the first seeds only.")] = None,
    device: Annotated[str | None, typer.Option(help="Where to run: cpu, cuda or cuda:N (default: as it says).")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of results (default: results beside the file).")] = None,
    folder: Annotated[Path, typer.Option(help="Folder of experiments.")] = Path("experiments"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run what is not finished of an experiment, then write its table, figures and picture.

    Examples:

    `gpnn experiment ours --jobs 8`

    `gpnn experiment paper --column Cora --column Citeseer --seeds 3`

    `gpnn experiment list --json`
    """
    _check_clone()
    from experiments.harness import (
        Results,
        find_entries,
        find_file,
        plain_numbers,
        read_experiment,
        run_experiment,
        write_report,
    )

    if name == "list":
        _list(folder, out or folder / "results", quiet=quiet, json=json)
        return
    file = Path(name) if name.endswith(".toml") else find_file(folder, name)
    chosen = read_experiment(file)
    out = out or (folder if file.is_relative_to(folder) else file.parent) / "results"
    if quick:
        chosen, out = chosen.quick_form(), out / "quick"
    only = chosen.select(rows=row or (), columns=column or (), seeds=seeds)
    results = Results.open(out / "cells" / f"{chosen.name}.jsonl")
    results.adopt(chosen)
    console = messages(silent=quiet or json)
    run_experiment(chosen, results, jobs=jobs, progress=_shower(console), only=only, device=device)
    files = write_report(chosen, results, out, command=shlex.join(["gpnn", *sys.argv[1:]]))
    if json:
        numbers = [plain_numbers(entry) for entry in find_entries(chosen, results)]
        print_json({"experiment": chosen.name, "files": list(map(str, files)), "results": numbers})
        return
    output().print((out / f"{chosen.name}.md").read_text(encoding="utf-8"), markup=False, soft_wrap=True)
    console.print(f"Written: {', '.join(map(str, files))}", markup=False)


def _check_clone() -> None:
    """Raise ValueError unless the code of the experiments can be imported."""
    if find_spec("experiments") is None or find_spec("experiments.harness") is None:
        raise ValueError(
            "`gpnn experiment` must run in a clone of the repository, which holds the experiments and their code "
            '(there: pip install -e "."). Got an installed package alone.'
        )


def _shower(console: Console) -> Callable[[Cell, int, int], None]:
    def show(cell: Cell, finished: int, number: int) -> None:
        console.print(f"{finished}/{number}  {cell.row} · {cell.column} · seed {cell.seed}", markup=False)

    return show


def _list(folder: Path, out: Path, *, quiet: bool, json: bool) -> None:
    """What experiments there are; quiet, their names only."""
    from experiments.harness import find_experiments

    found = find_experiments(folder)
    if not found:
        raise ValueError(f"`--folder` must hold experiments as TOML files. Got {folder}.")
    if quiet and not json:
        typer.echo("\n".join(each.name for each in found))
        return
    rows = [(each.name, each.title, *_count(each, out)) for each in found]
    if json:
        print_json({name: dict(zip(COLUMNS, numbers)) for name, *numbers in rows})
    else:
        output().print(table(["experiment", *COLUMNS], rows))


def _count(each: Experiment, out: Path) -> tuple[int, int]:
    """How many runs an experiment has, and how many of them are finished."""
    from experiments.harness import Results

    results = Results.open(out / "cells" / f"{each.name}.jsonl")
    keys = {cell.key for cell in each.cells()}
    return len(keys), sum(key in results.outcomes for key in keys)
