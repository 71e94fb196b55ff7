"""A run: objects trained into a run folder by a process group of any size, from the start or from a checkpoint."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpnn.build.finish import blend_run, finish_run, write_baselines
from gpnn.build.objects import (
    Begun,
    Built,
    OwnShard,
    begin,
    begin_shard,
    build,
    build_data,
    pipeline_of,
    resolve,
    resolve_shards,
)
from gpnn.build.race import Race, begin_race, read_race, unfinished_race
from gpnn.build.report import write_run_report
from gpnn.build.search import Search, check_searched
from gpnn.build.shard_data import read_own, shard_digests, write_data
from gpnn.build.unchanged import (
    adopt_config,
    check_unchanged,
    digests_of,
    load_config,
    load_trained_config,
    record,
    settings_of,
)
from gpnn.check import unknown_settings
from gpnn.config import Config, parse_config, read_settings, sound_config
from gpnn.distributed import ShardIndex, group_of, is_shard_folder, read_index
from gpnn.distributed.launch import ONE_PROCESS, Processes, choose_local_device
from gpnn.report import write_model_card
from gpnn.run.folder import HistoryFile, RunFolder, check_free, describe_environment, reserve_run_path
from gpnn.storage.atomic import finite, make_folder, staging_folder, sync_folder, write_json
from gpnn.storage.read import flatten, read_json, shorten
from gpnn.train.fit import ENDS, Callback, FitResult
from gpnn.train.recipe import Recipe

SHARDS = "shards"  # the folder in a run that holds the shards of a dataset that came without


@dataclass(frozen=True)
class Start:
    """What rank 0 determines before all processes build.

    Attributes:
        path: the run folder.
        config: the configuration; sizes are chosen where there are shards.
        shards: the folder of shards, or None: one process trains on the whole graph.
    """

    path: Path
    config: Config
    shards: Path | None

    def to_json(self) -> dict[str, Any]:
        """As it is sent to the other processes."""
        shards = None if self.shards is None else str(self.shards)
        return {"path": str(self.path), "config": self.config.to_toml(), "shards": shards}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Start:
        """What another process sent."""
        config = sound_config(tomllib.loads(value["config"]))
        return cls(Path(value["path"]), config, None if value["shards"] is None else Path(value["shards"]))


def begin_run(
    read: Callable[[], Config],
    out: Path | None = None,
    processes: Processes = ONE_PROCESS,
    *,
    before: Callable[[Config], Search | Race | None] | None = None,
) -> tuple[RunFolder, Begun]:
    """A new run and its objects, which are built first, so that a mistake leaves no folder behind; collective.

    A run that begins with a race has no objects of its own yet: :func:`gpnn.build.race.begin_race`.

    Args:
        read: gives the configuration; called in rank 0.
        out: the run folder; None: one named by the time.
        processes: those that train.
        before: gives the search or the race that precedes the training of a configuration, or None.

    Raises:
        ValueError: when there is something at `out` already, or the configuration does not suit the data.
    """
    with ExitStack() as stack:
        start = _agree(processes, lambda: _prepare(read(), out, processes, stack, before))
        begun, index = _build(start, processes, before and before(start.config))
        _agree(processes, lambda: _create(start, begun, before and before(begun.config), index))
    return RunFolder(start.path), begun


def create_run(
    begun: Begun, path: Path, before: Search | Race | None = None, shards: ShardIndex | None = None
) -> RunFolder:
    """The run folder of objects that were built, with its configuration, environment and, if any, its search or race.

    Args:
        begun: the objects.
        path: where.
        before: what precedes the training.
        shards: the index of the shards that they were built from, or None: of a whole graph.

    Raises:
        ValueError: when there is something at `path` already.
    """
    began: dict[str, Any] = {"settings": settings_of(begun.config)}
    if shards is None:
        began |= digests_of(begun)
    else:
        began |= {"processes": begun.group.size, **shard_digests(shards)}
    environment = finite(describe_environment(begun.device) | began)
    files = {"config.toml": begun.config.to_toml(), "environment.json": json.dumps(environment, indent=2) + "\n"}
    if before is not None:
        files[before.file] = before.to_json()
    return RunFolder.create(path, files)


def open_run(path: Path, processes: Processes = ONE_PROCESS, words: Sequence[str] = ()) -> tuple[RunFolder, Begun]:
    """The run at `path` and its objects, built again from its configuration; collective.

    Args:
        path: the run folder.
        processes: those that train.
        words: settings `key=value` that extend the training: :func:`gpnn.build.run.extend_config`.

    Raises:
        ValueError: when there is none, it failed, or its data, its file of subgraphs or a setting is not what it began
            with.
    """
    start = _agree(processes, lambda: _reopen(path, processes, words))
    run = RunFolder(path)
    race = unfinished_race(run)
    begun, index = _build(start, processes, race)
    if index is None:
        check_unchanged(run, digests_of(begun), begun.config, began=None if race is None else race.began)
    return run, begun


def train_run(
    run: RunFolder,
    built: Built,
    callbacks: Sequence[Callback] = (),
    *,
    report: bool = True,
    on_stage: Callable[[str], None] | None = None,
) -> FitResult:
    """Train, from the run's checkpoint where there is one; at the end the run folder is complete; collective.

    An interrupted training leaves a checkpoint to continue from, and what its best weights give; one that diverged
    leaves the reason, and no predictions. The report is written last, unless `report` is False, the training was
    interrupted, its libraries are not installed, or there are too many predictions to hold.
    Rank 0 writes the files.

    Args:
        run: the run folder.
        built: this process's objects.
        callbacks: of the training.
        report: whether to write a report.
        on_stage: called with what is done after the training, as it begins.
    """
    begin_stage = on_stage or (lambda what: None)
    leads = group_of(built.plan).rank == 0
    result = built.fit(run.checkpoint, [*([HistoryFile(run)] if leads else []), *callbacks])
    if result.problem is not None and leads:
        run.write_failure(result.problem)
    if result.metrics:
        begin_stage("predicting, and writing the run folder")
        result = _finish(run, built, result)
        if report and result.logits is not None and result.stopped in ENDS:
            begin_stage("writing the report")
            write_run_report(run, built, result.logits)
    return result


def _finish(run: RunFolder, built: Built, result: FitResult) -> FitResult:
    """Complete the run folder, with the predictions of the run's blend where its race found one; collective."""
    leads, noted = group_of(built.plan).rank == 0, None
    if leads and result.logits is not None and result.stopped in ENDS:  # who stops a run waits
        write_baselines(run, built)
    raced = read_race(run.race).record if run.race.exists() else None
    if raced is not None and raced.mixture.weights:
        result, noted = blend_run(run, built, result, raced.mixture)
    finish_run(run, built, result, noted)
    if leads:
        write_model_card(run)
    return result


def _agree(processes: Processes, make: Callable[[], Start]) -> Start:
    return processes.group.run_on_rank0(make, Start.to_json, Start.from_json)


def _prepare(
    config: Config,
    out: Path | None,
    processes: Processes,
    stack: ExitStack,
    before: Callable[[Config], Search | Race | None] | None,
) -> Start:
    """The start of a new run; the shards of a dataset that came without are written beside it until it is there."""
    searches = before is not None and isinstance(before(config), Search)
    if searches and (processes.group.size > 1 or is_shard_folder(config.data.name)):
        raise ValueError("`--search` is for one process: search first, then train the best with torchrun.")
    path = out or stack.enter_context(reserve_run_path(Path(config.data.name).name))
    check_free(path)
    if is_shard_folder(config.data.name):
        shards = Path(config.data.name)
        return Start(path, resolve_shards(config, read_index(shards)), shards)
    if processes.group.size == 1:
        return Start(path, config, None)
    make_folder(path.parent)
    shards = stack.enter_context(staging_folder(path)) / SHARDS
    return Start(path, _write_shards(config, processes.group.size, shards)[0], shards)


def _create(start: Start, begun: Begun, before: Search | Race | None, index: ShardIndex | None) -> Start:
    """Make the run folder; shards that were written for it become its own."""
    create_run(begun, start.path, before, index)
    if start.shards is not None and str(start.shards) != start.config.data.name:
        start.shards.replace(start.path / SHARDS)
        sync_folder(start.path)
    return start


def _reopen(path: Path, processes: Processes, words: Sequence[str]) -> Start:
    """The start of a resumed run; one that began without shards gets them where several processes need them."""
    run, own = RunFolder.open(path), path / SHARDS
    run.check_succeeded()
    config = extend_config(run, _began_as(run), words)
    shards = own if is_shard_folder(own) else Path(config.data.name)
    if run.search.exists() and processes.group.size > 1:
        check_searched(run)
    if is_shard_folder(shards):
        check_unchanged(run, shard_digests(read_index(shards)), config, str(shards))
        return Start(path, config, shards)
    if processes.group.size == 1 and not _began_with_shards(run):
        return Start(path, config, None)
    record(run, shards_sha256=None)  # they are about to be written
    record(run, shards_sha256=_write_shards(config, processes.group.size, own)[1].sha256)
    check_unchanged(run, shard_digests(read_index(own)), config, str(own))
    return Start(path, config, own)


def _began_as(run: RunFolder) -> Config:
    """The configuration that a run is resumed with; where its race is not over, that race's base."""
    race, config = unfinished_race(run), load_trained_config(run)
    return config if race is None or race.began is None else race.base_config()


def _began_with_shards(run: RunFolder) -> bool:
    return run.environment.is_file() and "processes" in read_json(run.environment)


def _write_shards(config: Config, num_shards: int, folder: Path) -> tuple[Config, ShardIndex]:
    """Load a dataset, divide it and write a shard for each of `num_shards` processes; any number can read them."""
    data = build_data(config)
    config = resolve(config, data)
    part = pipeline_of(config).make_partition(data)
    return config, write_data(data, part, num_shards, folder, name=config.data.name)


def _build(start: Start, processes: Processes, before: Search | Race | None) -> tuple[Begun, ShardIndex | None]:
    """The objects of this process and, where it has a shard, the index of all; collective."""
    if start.shards is None:
        return begin_race(before, begin(start.config)) if isinstance(before, Race) else build(start.config), None
    config, folder, launch = start.config, start.shards, processes.launch
    device = processes.group.run_on_all(lambda: choose_local_device(config.device, launch))
    group = processes.training_group(device)
    index = read_index(folder)
    shard, data = group.run_on_all(lambda: read_own(index, group))
    own = OwnShard(index, shard, data, group, device, launch.local_size)
    begun = group.run_on_all(lambda: begin_shard(config, own))
    return begin_race(before, begun) if isinstance(before, Race) else begun.build_other(config), index


EXTENDABLE = ("train.epochs", "train.patience", "budget")


def extend_config(run: RunFolder, config: Config, words: Sequence[str]) -> Config:
    """The configuration of a resumed run, with `train.epochs`, `train.patience` or `budget` as the words have it.

    Args:
        run: the run; where it is finished, the words must extend it.
        config: as it is.
        words: settings `key=value`.

    Raises:
        ValueError: for another setting, or one that changes nothing.
    """
    if not words:
        return config
    given = read_settings(None, words)
    _check_names([name for name, _ in flatten(given)])
    _check_moment(run, given)
    settings = config.to_mapping()
    extended, problems = parse_config({**settings, **given, "train": {**settings["train"], **given.get("train", {})}})
    if problems:
        raise ValueError("\n".join(problems))
    if run.finished:
        _check_goes_on(run.read_metrics(), config.train, extended.train)
    return extended


def adopt_extension(run: RunFolder, config: Config) -> bool:
    """Write to a resumed run how long it trains, as `config` has it; True where that has changed."""
    race = unfinished_race(run)
    if race is not None:
        if race.base_config().budget == config.budget:
            return False
        write_json(run.race, race.with_budget(config.budget).to_mapping())
        return True
    noted = load_config(run.config)
    train = replace(noted.train, epochs=config.train.epochs, patience=config.train.patience)
    if train == noted.train:
        return False
    adopt_config(run, replace(noted, train=train))
    return True


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if unknown_settings([name]):
            raise ValueError(unknown_settings([name])[0])
        if name not in EXTENDABLE:
            raise ValueError(
                "A resumed run keeps the settings that it began with; only train.epochs, train.patience and budget may "
                f"change. Got {name}."
            )


def _check_moment(run: RunFolder, given: Mapping[str, Any]) -> None:
    """Raise ValueError for a budget without a race to do, and for the length of a training that is not chosen yet."""
    race = unfinished_race(run)
    if race is None and "budget" in given:
        raise ValueError("`budget` is of a race that is not over. This run has none: train.epochs extends it.")
    if race is not None and "train" in given:
        raise ValueError("The race of this run is not over: until then `budget` may change, train.epochs afterwards.")
    if race is None and run.search.exists():
        check_searched(run)


def _check_goes_on(metrics: Mapping[str, Any], before: Recipe, after: Recipe) -> None:
    """Raise ValueError where a finished run would take no further epoch."""
    done, stopped = metrics.get("epochs") or 0, metrics.get("stopped")
    if stopped == "patience" and 0 < after.patience <= before.patience:
        raise ValueError(
            f"Patience ended this run after epoch {done:,}: train.patience must be more than {before.patience:,}, or 0 "
            f"for no end. Got {after.patience:,}."
        )
    if stopped == "epochs" and done < before.epochs:
        raise ValueError(f"This run has tried all {done:,} settings of its model: there are no further epochs.")
    if after.epochs <= done:
        raise ValueError(f"`train.epochs` must be more than the {done:,} that are done. Got {shorten(after.epochs)}.")
