"""`gpnn train`: a model from a dataset or a folder, into a run folder."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpnn.cli.errors import FAILED, INTERRUPTED
from gpnn.cli.options import Edges, Features, Json, Nodes, Root, Words
from gpnn.cli.process import set_process
from gpnn.cli.progress import Interrupt, progress_watcher, waiting
from gpnn.cli.show import messages, print_notes
from gpnn.cli.show_run import headline, show_result, show_trial
from gpnn.cli.together import Request, train_together, trains_together
from gpnn.cli.words import given_settings, read_config, split_words

if TYPE_CHECKING:
    from gpnn.build import Built
    from gpnn.config import Config
    from gpnn.train import FitResult, RunFolder
    from gpnn.train.fit import Watcher


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

    Ctrl-C leaves a run that `--resume` continues; the exit code is then 130.

    Examples:

    `gpnn train`

    `gpnn train cora train.epochs=100 model.hidden_channels=128 seed=3`

    `gpnn train my_graph/ --config settings.toml --out runs/first`

    `gpnn train --nodes people.csv --edges friends.parquet --features vectors.npy`

    `gpnn train --resume runs/first`

    `torchrun --nproc-per-node 2 -m gpnn train cora --out runs/two`
    """
    if tensorboard:
        from gpnn.run.tensorboard import check_tensorboard

        check_tensorboard()
    if resume is not None and (words or config or out or root or search or nodes or edges or features):
        raise ValueError("`--resume` must stand alone: a run goes on with the settings it began with.")
    tables = {"nodes": nodes, "edges": edges, "features": features}
    if trains_together(split_words(words)[0], resume):
        _together(
            Request(
                lambda: read_config(words, file=config, root=root, tables=tables),
                out,
                resume,
                timeout,
                silent=quiet or json,
                curves=tensorboard,
                report=report,
            ),
            search=search,
            quiet=quiet,
            json=json,
        )
        return
    if resume is not None:
        with waiting("reading the graph and preparing the schedule", silent=quiet or json):
            run, built = _reopen(resume)
    else:
        settings = read_config(words, file=config, root=root, tables=tables)
        with waiting("reading the graph and preparing the schedule", silent=quiet or json):
            run, built = _begin(settings, out, search, given_settings(words, config))
    problem = None if built is None else _train(run, built, silent=quiet or json, curves=tensorboard, report=report)
    _end(run, problem, quiet=quiet, json=json)


def _together(request: Request, *, search: int, quiet: bool, json: bool) -> None:
    """The same in several processes, of which the first shows the result."""
    if search:
        raise ValueError("`--search` is for one process: search first, then train the best with torchrun.")
    ended = train_together(request)
    if ended is not None:
        _end(*ended, quiet=quiet, json=json)


def _end(run: RunFolder, problem: str | None, *, quiet: bool, json: bool) -> None:
    """Show the result; a training that diverged has none."""
    if problem is not None:
        typer.echo(f"gpnn: {problem}", err=True)
        raise typer.Exit(FAILED)
    show_result(run, quiet=quiet, json=json)


def _begin(config: Config, out: Path | None, num_trials: int, given: list[str]) -> tuple[RunFolder, Built]:
    """Build first, so that a mistake leaves no folder behind."""
    from gpnn.build import Search, build, create_run
    from gpnn.run.folder import check_free, default_run_path

    path = out or default_run_path(Path(config.data.name).name)
    check_free(path)
    built = build(config)
    set_process(built)
    search = Search(num_trials, built.config.to_toml(), tuple(given)) if num_trials else None
    return create_run(built, path, search), built


def _reopen(path: Path) -> tuple[RunFolder, Built | None]:
    """A run to continue; one that is finished has nothing left to build."""
    from gpnn.build import open_run
    from gpnn.run.lock import remove_unfinished
    from gpnn.train import RunFolder

    run = RunFolder.open(path)
    if run.finished:
        remove_unfinished(path)  # a kill in the last write leaves its empty workplace
        typer.echo("gpnn: this run is finished.", err=True)
        return run, None
    run, built = open_run(path)
    set_process(built)
    return run, built


def _train(run: RunFolder, built: Built, *, silent: bool, curves: bool, report: bool) -> str | None:
    """Train to the end; the problem if it ended badly. Ctrl-C exits with 130 and leaves a run to continue."""
    from gpnn.run.lock import lock_run

    try:
        with lock_run(run.path), Interrupt(silent=silent) as interrupt:
            if run.finished:  # by another process, while this one read the graph
                return None
            searched = _search(run, built, interrupt, silent=silent)
            settings = {"silent": silent, "curves": curves, "report": report}
            result = None if searched is None else _fit(run, searched, interrupt, **settings)
    except KeyboardInterrupt:
        result = None
    if result is None or result.stopped == "interrupted":
        typer.echo(f"gpnn: stopped. Continue with: gpnn train --resume {run.path}", err=True)
        raise typer.Exit(INTERRUPTED)
    return result.problem


def _search(run: RunFolder, built: Built, interrupt: Interrupt, *, silent: bool) -> Built | None:
    """The best of the run's trials where it searches, else what was built; None after Ctrl-C."""
    from gpnn.build import search_run

    if not run.search.exists():
        return built
    show = _ignore if silent else show_trial
    return search_run(run, built.data, watchers=[interrupt], on_trial=show)


def _fit(run: RunFolder, built: Built, interrupt: Interrupt, *, silent: bool, curves: bool, report: bool) -> FitResult:
    from gpnn.build import history_notes, train_run
    from gpnn.report import advice, can_write
    from gpnn.run.tensorboard import TensorBoard

    watchers: list[Watcher] = [interrupt]
    with ExitStack() as stack:
        if curves:
            watchers.append(stack.enter_context(closing(TensorBoard(run.tensorboard))))
        if not silent:
            messages().print(headline(built), markup=False)
            messages().print(f"engine: {built.engine}", markup=False)
            print_notes(built.notes, messages())
            watchers.append(stack.enter_context(progress_watcher(built.config.train.epochs)))
        if report and not silent and not can_write():
            messages().print(advice(), markup=False)
        result = train_run(run, built, watchers, report=report)
    if not silent and result.metrics:
        print_notes(history_notes(run, built), messages())
    return result


def _ignore(row: dict[str, Any]) -> None:
    del row
