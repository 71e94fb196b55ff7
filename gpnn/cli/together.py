"""`torchrun … -m gpnn train`: the same command in several processes, and what each says when another is lost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from gpnn.cli.errors import FAILED, INTERRUPTED, USER_MISTAKE
from gpnn.cli.process import set_process
from gpnn.cli.progress import Interrupt, progress_watcher
from gpnn.cli.show import messages, print_notes
from gpnn.cli.show_run import headline

if TYPE_CHECKING:
    import torch

    from gpnn.build import Built
    from gpnn.config import Config
    from gpnn.distributed import ProcessGroup
    from gpnn.distributed.launch import Launch
    from gpnn.train import FitResult, RunFolder
    from gpnn.train.fit import Watcher

SHARDS = "shards"  # the folder in a run that holds the shards of a dataset that came without


@dataclass(frozen=True)
class Request:
    """What the command asks for.

    Attributes:
        config: gives the settings of a new run.
        out: its folder, or None: one named by the time.
        resume: the run to continue, or None.
        timeout: seconds after which a process that does not answer counts as lost.
        silent: whether to show no progress.
        curves: whether to draw TensorBoard's curves.
        report: whether to write the report at the end.
    """

    config: Callable[[], Config]
    out: Path | None
    resume: Path | None
    timeout: float
    silent: bool
    curves: bool
    report: bool = True


def trains_together(name: str | None, resume: Path | None) -> bool:
    """Whether torchrun started this process, or what it trains on is a folder of shards."""
    if {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= set(os.environ):
        return True
    if resume is not None:
        return (resume / SHARDS).is_dir() or _began_together(resume)
    return name is not None and (Path(name) / "shards.json").is_file()


def _began_together(run: Path) -> bool:
    """Whether shards were what a run began with, in one process or several."""
    from gpnn.storage.read import read_json

    environment = run / "environment.json"
    return environment.is_file() and "processes" in read_json(environment)


def train_together(request: Request) -> tuple[RunFolder, str | None] | None:
    """Train in this process and all others; in the first the run and the problem, if it ended badly, else None."""
    from gpnn.distributed import RankFailed
    from gpnn.distributed.launch import Launch, choose_local_device, join

    launch = Launch.from_environment() or Launch()
    with _said_once(launch):
        if request.timeout <= 0:
            raise ValueError(f"`--timeout` must be more than 0 seconds. Got {request.timeout:g}.")
        device = choose_local_device(_settings(request).device, launch)
    with _faults(launch, request) as where:
        group = join(launch, device, request.timeout)
        try:
            run, problem = _train(request, launch, group, device, where)
        except RankFailed:
            raise typer.Exit(USER_MISTAKE) from None
    return (run, problem) if launch.rank == 0 else None


def _settings(request: Request) -> Config:
    if request.resume is None:
        return request.config()
    from gpnn.build import load_run_config
    from gpnn.train import RunFolder

    return load_run_config(RunFolder.open(request.resume))


def _train(
    request: Request, launch: Launch, group: ProcessGroup, device: torch.device, where: list[Path]
) -> tuple[RunFolder, str | None]:
    from gpnn.build import load_run_config
    from gpnn.build.sharded import build_sharded, read_own
    from gpnn.distributed import read_index
    from gpnn.distributed.launch import patient_group
    from gpnn.train import RunFolder

    begun = patient_group().run_on_rank0(lambda: _begin(request, launch, device))
    run = RunFolder(Path(begun["run"]))
    where.append(run.path)
    if begun["finished"]:
        return run, None
    config = replace(load_run_config(run), device=str(device))
    index = read_index(begun["shards"])
    shard, data = group.run_on_all(lambda: read_own(index, group))
    built = group.run_on_all(lambda: build_sharded(config, index, shard, data, group, sharing=launch.local_size))
    set_process(built)
    result = _fit(run, built, request, group)
    if result.stopped == "interrupted":
        if launch.rank == 0:
            typer.echo(f"gpnn: stopped. Continue with: torchrun … -m gpnn train --resume {run.path}", err=True)
        raise typer.Exit(INTERRUPTED)
    return run, result.problem


def _begin(request: Request, launch: Launch, device: torch.device) -> dict[str, Any]:
    """What the first process does before the others can start: the run's folder, and the shards."""
    from gpnn.build import load_run_config
    from gpnn.build.sharded import check_shards, prepare_shards, record_shards
    from gpnn.distributed import is_shard_folder, read_index
    from gpnn.run.lock import remove_unfinished
    from gpnn.train import RunFolder

    path = request.resume
    if path is None and launch.restarts and request.out is not None and RunFolder(request.out).config.exists():
        path = request.out  # torchrun has started the job again
    if path is None:
        return _begin_new(request, launch, device)
    run, own = RunFolder.open(path), path / SHARDS
    run.check_succeeded()
    config = load_run_config(run)
    shards = own if is_shard_folder(own) else Path(config.data.name)
    if not run.finished and not is_shard_folder(shards):  # one process began it
        record_shards(run, None)
        record_shards(run, prepare_shards(config, launch.size, own)[1])
        shards = own
    if run.finished:
        remove_unfinished(path)
    else:
        check_shards(run, read_index(shards))
    return {"run": str(path), "shards": str(shards), "finished": run.finished}


def _begin_new(request: Request, launch: Launch, device: torch.device) -> dict[str, Any]:
    from gpnn.build.sharded import create_sharded_run, prepare_shards, resolve_sizes
    from gpnn.distributed import is_shard_folder, read_index
    from gpnn.run.folder import check_free, default_run_path
    from gpnn.storage.atomic import workplace

    if launch.max_restarts and request.out is None:
        raise ValueError("With torchrun --max-restarts there must be `--out`, so that a restart finds the run.")
    config = request.config()
    path = request.out or default_run_path(Path(config.data.name).name)
    check_free(path)
    if is_shard_folder(config.data.name):
        index = read_index(config.data.name)
        create_sharded_run(resolve_sizes(config, index), index, path, device, launch.size)
        return {"run": str(path), "shards": config.data.name, "finished": False}
    path.parent.mkdir(parents=True, exist_ok=True)
    with workplace(path) as folder:
        config, index = prepare_shards(config, launch.size, folder / SHARDS)
        create_sharded_run(config, index, path, device, launch.size)
        (folder / SHARDS).replace(path / SHARDS)
    return {"run": str(path), "shards": str(path / SHARDS), "finished": False}


def _fit(run: RunFolder, built: Built, request: Request, group: ProcessGroup) -> FitResult:
    from gpnn.build import history_notes
    from gpnn.build.report import write_run_report
    from gpnn.build.sharded import train_sharded_run
    from gpnn.report import advice, can_write
    from gpnn.run.lock import lock_run
    from gpnn.run.tensorboard import TensorBoard

    leads = group.rank == 0
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt(silent=request.silent or not leads))
        watchers: list[Watcher] = [interrupt]
        if leads:
            stack.enter_context(lock_run(run.path))
        if leads and request.curves:
            watchers.append(stack.enter_context(closing(TensorBoard(run.tensorboard))))
        if leads and not request.silent:
            messages().print(headline(built), markup=False)
            messages().print(f"engine: {built.engine}", markup=False)
            print_notes(built.notes, messages())
            watchers.append(stack.enter_context(progress_watcher(built.config.train.epochs)))
            if request.report and not can_write():
                messages().print(advice(), markup=False)
        result = train_sharded_run(run, built, watchers)
        if request.report and result.metrics:
            write_run_report(run, built, result.logits)
    if leads and not request.silent and result.metrics:
        print_notes(history_notes(run, built), messages())
    return result


@contextmanager
def _said_once(launch: Launch) -> Iterator[None]:
    """A mistake that every process finds is told by the first alone."""
    try:
        yield
    except (ValueError, OSError, ImportError):
        if launch.rank:
            raise typer.Exit(USER_MISTAKE) from None
        raise


@contextmanager
def _faults(launch: Launch, request: Request) -> Iterator[list[Path]]:
    """Say one sentence and end, when another process is lost or torchrun ends this one because of it."""
    import torch.distributed as dist

    from gpnn.distributed.launch import is_lost_peer

    where: list[Path] = []

    def end(what: str) -> None:
        goes_on = f" Continue with: torchrun … -m gpnn train --resume {where[0]}" if where else ""
        typer.echo(f"gpnn: process {launch.rank} of {launch.size} {what}.{goes_on}", err=True)
        sys.stderr.flush()
        os._exit(FAILED)  # threads of the lost connection would keep an ordinary exit waiting

    def told(number: int, frame: FrameType | None) -> None:
        end("was told to stop, because another one ended or from outside")

    before = signal.signal(signal.SIGTERM, told)
    try:
        yield where
    except RuntimeError as error:
        if not is_lost_peer(error):
            raise
        end(f"lost another one, which ended or did not answer within {request.timeout:g} seconds")
    finally:
        signal.signal(signal.SIGTERM, before)
        if dist.is_initialized():
            dist.destroy_process_group()
