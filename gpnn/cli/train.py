"""`gpnn train`: a model from a dataset or a folder, into a run folder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpnn.cli.errors import FAILED
from gpnn.cli.process import Interrupt, Launched, launched, leads_by_name, load_library, set_process
from gpnn.cli.show import headline, messages, print_notes, show_race, show_result, show_trial
from gpnn.cli.words import (
    Edges,
    Features,
    Json,
    Nodes,
    Root,
    Words,
    check_words,
    chooses_model,
    given_settings,
    read_config,
    split_words,
)
from gpnn.progress import Progress
from gpnn.text import metric_text

if TYPE_CHECKING:
    from gpnn.build import Begun, Built
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
    resume: Annotated[Path | None, typer.Option(help="Run folder to continue, or to train for longer.")] = None,
    search: Annotated[int, typer.Option(min=0, help="Try this many configurations on validation first.")] = 0,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Draw curves in RUN/tensorboard.")] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write RUN/report.html.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a process of torchrun that is silent.")] = 600,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the run folder only.")] = False,
    json: Json = False,
) -> None:
    """Train on a dataset, a folder of tables or a graph file; without one, on the embedded `digits`.

    Ctrl-C, SIGTERM and SIGHUP stop a run after the epoch: its best weights so far serve `predict` and `report`, and
    `--resume` continues it, be it for longer: with other `train.epochs`, `train.patience` or `budget` of a race. The
    exit code is then 130, 143 or 129.

    Examples:

    `gpnn train`

    `gpnn train cora train.epochs=100 model.hidden_channels=128 seed=3`

    `gpnn train my_graph/ --config settings.toml --out runs/first`

    `gpnn train --nodes people.csv --edges friends.parquet --features vectors.npy`

    `gpnn train --resume runs/first`

    `gpnn train --resume runs/first train.epochs=800 train.patience=200`

    `torchrun --nproc-per-node 2 -m gpnn train cora --out runs/two`
    """
    silent, what, problem = quiet or json or not leads_by_name(), "reading the graph and preparing the schedule", None
    check_words(words, leads=leads_by_name())
    load_library(what, silent=silent)
    with launched(timeout) as here, Interrupt(silent=silent) as interrupt:
        given = (split_words(words)[0], config, out, root, search, nodes, edges, features)
        path = here.on_rank0(lambda: _find(here, resume, out, alone=not any(given), tensorboard=tensorboard))
        try:
            with Progress(what, silent=interrupt.silent) as progress:
                if path is not None:
                    here.run = Path(path)
                    run, begun = _reopen(here.run, here, (words or []) if resume is not None else [])
                else:
                    tables = {"nodes": nodes, "edges": edges, "features": features}
                    run, begun = _begin(partial(_read, words, config, root, tables, search), out, here, search)
                here.run = run.path
                if begun is not None:
                    problem = _train(run, begun, here, interrupt, progress, curves=tensorboard, report=report)
                elif here.leads:
                    _write_missing(run, progress, report=report)
        except KeyboardInterrupt:
            if here.leads:
                typer.echo(f"gpnn: stopped.{_describe_stopped(here)}", err=True)
            raise typer.Exit(interrupt.exit_code) from None
        if here.leads:
            _end(run, problem, quiet=quiet, json=json)


def _find(here: Launched, resume: Path | None, out: Path | None, *, alone: bool, tensorboard: bool) -> str | None:
    """The run to continue, if any, be it one that torchrun starts again; called in rank 0, which prints mistakes."""
    if tensorboard:
        from gpnn.progress import check_tensorboard

        check_tensorboard()
    if resume is not None and not alone:
        raise ValueError(
            "`--resume` must stand alone, or with train.epochs=…, train.patience=… or budget=…: a resumed run keeps "
            "the settings it began with."
        )
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
) -> tuple[RunFolder, Begun]:
    """A new run, with the search or the race that precedes its training."""
    from gpnn.build import Race, Search, begin_run
    from gpnn.recipes import AUTO

    def before(config: Config) -> Search | Race | None:
        fixed = tuple(read()[1])
        if num_trials:
            return Search(num_trials, config.to_toml(), fixed)
        return Race(config.to_toml(), fixed) if config.recipe == AUTO else None

    run, begun = begin_run(lambda: read()[0], out, here.processes, before=before)
    set_process(begun)
    return run, begun


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


def _reopen(path: Path, here: Launched, words: list[str]) -> tuple[RunFolder, Begun | None]:
    """A run to continue; one that is finished has nothing left to build, unless words extend it."""
    from gpnn.build import open_run
    from gpnn.run.folder import remove_unfinished
    from gpnn.train import RunFolder

    def finished() -> bool:
        done = RunFolder.open(path).finished and not words
        if done:
            remove_unfinished(path)  # a kill in the last write leaves its empty staging folder
            typer.echo("gpnn: this run is finished.", err=True)
        return done

    if here.on_rank0(finished):
        return RunFolder(path), None
    run, begun = open_run(path, here.processes, words)
    set_process(begun)
    return run, begun


def _write_missing(run: RunFolder, progress: Progress, *, report: bool) -> None:
    """Write the model card and the report of a finished run that was killed before it had them."""
    from gpnn.build import report_run
    from gpnn.report import can_write, write_model_card

    if not run.model_card.exists():
        write_model_card(run)
    if report and can_write() and not run.report.exists():
        progress.stage("writing the report")
        report_run(run.path)


def _train(
    run: RunFolder,
    begun: Begun,
    here: Launched,
    interrupt: Interrupt,
    progress: Progress,
    *,
    curves: bool,
    report: bool,
) -> str | None:
    """Train to the end; the problem if it ended badly.

    Raises:
        KeyboardInterrupt: when a signal stopped it, which leaves the best so far and a run to continue.
    """
    with ExitStack() as stack:
        if here.on_rank0(lambda: _hold(run, begun, stack)):
            return None
        chosen = _choose(run, begun, [interrupt, progress], progress)
        if chosen is None:
            raise KeyboardInterrupt
        result = _fit(run, chosen, interrupt, progress, curves=curves and here.leads, report=report)
    if result.stopped == "interrupted":
        raise KeyboardInterrupt
    return result.problem


def _hold(run: RunFolder, begun: Begun, stack: ExitStack) -> bool:
    """Lock the run folder and let the run continue, for as long as its objects have it.

    Returns:
        Whether another process finished the run while this one read the graph.
    """
    from gpnn.build import adopt_extension
    from gpnn.run.folder import lock_run

    stack.enter_context(lock_run(run.path))
    extended = adopt_extension(run, begun.config)
    if run.finished and not extended:
        return True
    run.reopen()
    return False


def _describe_stopped(here: Launched) -> str:
    """What a stopped run holds, and how to continue it; nothing where there is none yet."""
    from gpnn.train import RunFolder

    if here.run is None:
        return ""
    run, kept = RunFolder(here.run), ""
    if run.has_results:
        metrics = run.read_metrics()
        name = f"val_{metrics['metric']}"
        score = f", validation {metrics['metric']} {metric_text(name, metrics[name])}" if metrics.get(name) else ""
        kept = f" `gpnn predict` and `gpnn report` take the best so far: epoch {metrics['best_epoch']:,}{score}."
    return f"{kept} Continue with: {here.resume}"


def _choose(run: RunFolder, begun: Begun, callbacks: list[Callback], progress: Progress) -> Built | None:
    """The objects to train, after the search or the race where there is one; None if it was interrupted."""
    from gpnn.build import race_run, search_run

    silent = progress.silent
    chosen = search_run(
        run,
        begun,
        callbacks=callbacks,
        on_trial=_ignore if silent else show_trial,
        on_training=lambda number, epochs: progress.stage(f"trial {number + 1}", epochs),
    )
    if chosen is None:
        return None
    return race_run(
        run,
        chosen,
        callbacks=callbacks,
        on_record=_ignore if silent else show_race,
        on_training=progress.rung,
        on_measure=progress.measure,
    )


def _fit(
    run: RunFolder, built: Built, interrupt: Interrupt, progress: Progress, *, curves: bool, report: bool
) -> FitResult:
    from gpnn.build import history_notes, train_run
    from gpnn.progress import TensorBoard
    from gpnn.report import advice, can_write

    def begin_stage(what: str) -> None:
        interrupt.trains = False
        progress.stage(what)

    callbacks: list[Callback] = [interrupt, progress]
    silent = progress.silent
    with ExitStack() as stack:
        if curves:
            callbacks.append(stack.enter_context(closing(TensorBoard(run.tensorboard))))
        if not silent:
            messages().print(headline(built), markup=False)
            if built.engine is not None:
                messages().print(f"engine: {built.engine}", markup=False)
            print_notes(built.notes, messages())
        if report and not silent and not can_write():
            messages().print(advice(), markup=False)
        progress.stage("training", built.config.train.epochs)
        result = train_run(run, built, callbacks, report=report, on_stage=begin_stage)
    if not silent and result.metrics:
        print_notes(history_notes(run, built), messages())
    return result


def _ignore(row: Any) -> None:
    del row
