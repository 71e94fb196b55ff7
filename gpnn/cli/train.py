"""`gpnn train`: a model from a dataset or a folder, into a run folder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpnn.cli.errors import FAILED
from gpnn.cli.process import Launched, launched, set_process
from gpnn.cli.progress import Interrupt, progress_callback, waiting
from gpnn.cli.show import headline, messages, print_notes, show_race, show_result, show_trial
from gpnn.cli.words import Edges, Features, Json, Nodes, Root, Words, chooses_model, given_settings, read_config

if TYPE_CHECKING:
    from gpnn.build import Built
    from gpnn.config import Config
    from gpnn.train import FitResult, RunFolder
    from gpnn.train.fit import Callback


def train(
    words: Words = None,
    nodes: Nodes = None,
    edges: Edges = None,
    features: Features = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to make (default: runs/NAME-TIME).")] = None,
    root: Root = None,
    resume: Annotated[Path | None, typer.Option(help="Run folder to continue, to the same bits.")] = None,
    search: Annotated[int, typer.Option(min=0, help="Try this many configurations on validation first.")] = 0,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Draw curves in RUN/tensorboard.")] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write RUN/report.html.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a process of torchrun that is silent.")] = 600,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the run folder only.")] = False,
    json: Json = False,
) -> None:
    """Train on a dataset, a folder of tables or a graph file; without one, on the embedded `digits`.

    Ctrl-C, SIGTERM and SIGHUP leave a run that `--resume` continues; the exit code is then 130, 143 or 129.

    Examples:

    `gpnn train`

    `gpnn train cora train.epochs=100 model.hidden_channels=128 seed=3`

    `gpnn train my_graph/ --config settings.toml --out runs/first`

    `gpnn train --nodes people.csv --edges friends.parquet --features vectors.npy`

    `gpnn train --resume runs/first`

    `torchrun --nproc-per-node 2 -m gpnn train cora --out runs/two`
    """
    silent = quiet or json
    with launched(timeout) as here:
        given = (words, config, out, root, search, nodes, edges, features)
        path = here.on_rank0(lambda: _find(here, resume, out, alone=not any(given), tensorboard=tensorboard))
        with waiting("reading the graph and preparing the schedule", silent=silent or not here.leads):
            if path is not None:
                here.run = Path(path)
                run, built = _reopen(here.run, here)
            else:
                tables = {"nodes": nodes, "edges": edges, "features": features}
                run, built = _begin(partial(_read, words, config, root, tables, search), out, here, search)
        here.run, problem = run.path, None
        if built is not None:
            problem = _train(run, built, here, silent=silent or not here.leads, curves=tensorboard, report=report)
        elif report and here.leads:
            _write_missing_report(run)
        if here.leads:
            _end(run, problem, quiet=quiet, json=json)


def _find(here: Launched, resume: Path | None, out: Path | None, *, alone: bool, tensorboard: bool) -> str | None:
    """The run to continue, if any, be it one that torchrun starts again; called in rank 0, which prints mistakes."""
    if tensorboard:
        from gpnn.run.tensorboard import check_tensorboard

        check_tensorboard()
    if resume is not None and not alone:
        raise ValueError("`--resume` must stand alone: a run goes on with the settings it began with.")
    launch = here.processes.launch
    if resume is None and out is None and launch.max_restarts:
        raise ValueError("With torchrun --max-restarts there must be `--out`, so that a restart finds the run.")
    if resume is None and out is not None and launch.restarts and (out / "config.toml").exists():
        resume = out
    return None if resume is None else str(resume)


def _end(run: RunFolder, problem: str | None, *, quiet: bool, json: bool) -> None:
    """Show the result; a training that diverged has none."""
    if problem is not None:
        typer.echo(f"gpnn: {problem}", err=True)
        raise typer.Exit(FAILED)
    show_result(run, quiet=quiet, json=json)


def _begin(
    read: Callable[[], tuple[Config, list[str]]], out: Path | None, here: Launched, num_trials: int
) -> tuple[RunFolder, Built]:
    """A new run, with the search or the race that precedes its training."""
    from gpnn.build import Race, Search, begin_run
    from gpnn.recipes import AUTO

    def before(config: Config) -> Search | Race | None:
        fixed = tuple(read()[1])
        if num_trials:
            return Search(num_trials, config.to_toml(), fixed)
        return Race(config.to_toml(), fixed) if config.recipe == AUTO else None

    run, built = begin_run(lambda: read()[0], out, here.processes, before=before)
    set_process(built)
    return run, built


def _read(
    words: list[str] | None, file: Path | None, root: Path | None, tables: dict[str, Path | None], num_trials: int
) -> tuple[Config, list[str]]:
    """The configuration, and the names of the settings that were given; where none chooses a model, a race does."""
    given = given_settings(words, file)
    also = [] if num_trials or chooses_model(given) else ["recipe=auto"]
    config = read_config(words, file=file, root=root, tables=tables, also=also)
    if num_trials and config.recipe == "auto":
        raise ValueError("`--search` tries settings of one recipe: `recipe` must be one of them. Got 'auto'.")
    return config, given


def _reopen(path: Path, here: Launched) -> tuple[RunFolder, Built | None]:
    """A run to continue; one that is finished has nothing left to build."""
    from gpnn.build import open_run
    from gpnn.run.lock import remove_unfinished
    from gpnn.train import RunFolder

    def finished() -> bool:
        done = RunFolder.open(path).finished
        if done:
            remove_unfinished(path)  # a kill in the last write leaves its empty staging folder
            typer.echo("gpnn: this run is finished.", err=True)
        return done

    if here.on_rank0(finished):
        return RunFolder(path), None
    run, built = open_run(path, here.processes)
    set_process(built)
    return run, built


def _write_missing_report(run: RunFolder) -> None:
    """Write the report of a finished run that was killed before it had one."""
    from gpnn.build import report_run
    from gpnn.report import can_write

    if can_write() and not run.report.exists():
        report_run(run.path)


def _train(run: RunFolder, built: Built, here: Launched, *, silent: bool, curves: bool, report: bool) -> str | None:
    """Train to the end; the problem if it ended badly. A signal to stop leaves a run to continue."""
    from gpnn.build import race_run, search_run

    interrupt = Interrupt(silent=silent)
    try:
        with ExitStack() as stack:
            if here.on_rank0(lambda: _hold(run, stack)):
                return None
            stack.enter_context(interrupt)
            chosen = search_run(run, built, callbacks=[interrupt], on_trial=_ignore if silent else show_trial)
            if chosen is not None:
                chosen = race_run(run, chosen, callbacks=[interrupt], on_record=_ignore if silent else show_race)
            settings = {"silent": silent, "curves": curves and here.leads, "report": report}
            result = None if chosen is None else _fit(run, chosen, interrupt, **settings)
    except KeyboardInterrupt:
        result = None
    if result is None or result.stopped == "interrupted":
        if here.leads:
            typer.echo(f"gpnn: stopped. Continue with: {here.resume}", err=True)
        raise typer.Exit(interrupt.exit_code)
    return result.problem


def _hold(run: RunFolder, stack: ExitStack) -> bool:
    """Lock the run folder; whether another process finished the run while this one read the graph."""
    from gpnn.run.lock import lock_run

    stack.enter_context(lock_run(run.path))
    return run.finished


def _fit(run: RunFolder, built: Built, interrupt: Interrupt, *, silent: bool, curves: bool, report: bool) -> FitResult:
    from gpnn.build import history_notes, train_run
    from gpnn.report import advice, can_write
    from gpnn.run.tensorboard import TensorBoard

    callbacks: list[Callback] = [interrupt]
    with ExitStack() as stack:
        if curves:
            callbacks.append(stack.enter_context(closing(TensorBoard(run.tensorboard))))
        if not silent:
            messages().print(headline(built), markup=False)
            if built.engine is not None:
                messages().print(f"engine: {built.engine}", markup=False)
            print_notes(built.notes, messages())
            callbacks.append(stack.enter_context(progress_callback(built.config.train.epochs)))
        if report and not silent and not can_write():
            messages().print(advice(), markup=False)
        result = train_run(run, built, callbacks, report=report)
    if not silent and result.metrics:
        print_notes(history_notes(run, built), messages())
    return result


def _ignore(row: Any) -> None:
    del row
