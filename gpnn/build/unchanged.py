"""A run goes on with the data, the subgraphs and the settings that it began with."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpnn.build.names import load_config
from gpnn.build.objects import Built
from gpnn.config import Config, parse_config
from gpnn.data.check import digest_data, digest_labels
from gpnn.memory.engine import ENGINES
from gpnn.run.folder import RunFolder
from gpnn.storage.atomic import finite, write_json, write_text
from gpnn.storage.read import flatten, read_json, shorten

HOW_LONG = ("train.epochs", "train.patience", "train.checkpoint_every", "train.checkpoint_seconds")
WHERE = ("device", "threads", "engine", "memory", "device_memory", "disk")
PLACES = ("data.name", "data.root", "data.nodes", "data.edges", "data.features", "data.labels", "partition.file")
MAY_CHANGE = (*HOW_LONG, *WHERE, *PLACES)  # what lies at the places is compared by its digest


def settings_of(config: Config) -> dict[str, Any]:
    """The settings by their dotted names, as `environment.json` keeps them."""
    return finite(dict(flatten(config.to_mapping())))


def record_settings(run: RunFolder, config: Config) -> None:
    """Make these the settings that the run began with: those that a search chose."""
    record(run, settings=settings_of(config))


def adopt_config(run: RunFolder, config: Config) -> None:
    """Make a configuration the run's: that which a search or a race chose."""
    record_settings(run, config)
    write_text(run.config, config.to_toml())


def check_base(base: Any, name: str) -> Config:
    """The base configuration of a search or a race; `name` is the file that holds it.

    Raises:
        ValueError: when it is not one.
    """
    try:
        config, problems = parse_config(tomllib.loads(str(base)))
    except (ValueError, RecursionError) as error:
        problems = [str(error)]
    if problems:
        raise ValueError(f"The base in {name} must be a configuration. Got: {shorten(problems[0], 200)}.")
    return config


def digests_of(built: Built) -> dict[str, str]:
    """Digests of what lies outside the run folder: the data and, where one was given, the file of subgraphs."""
    found = {"data_sha256": digest_data(built.data)}
    if built.partition is not None and built.config.partition.file:
        found["partition_sha256"] = digest_labels(built.partition.labels)
    return found


def record(run: RunFolder, **values: Any) -> None:
    """Note what a run goes on with from now on."""
    write_json(run.environment, {**read_json(run.environment), **values})


def load_run_config(run: RunFolder) -> Config:
    """The configuration of a run.

    Raises:
        ValueError: when it is not one, or a setting is not the one that the run began with.
    """
    config = load_config(run.config)
    if run.has_results or not (run.search.exists() or run.race.exists()):  # one that goes on writes config.toml anew
        _check_settings(run, settings_of(config))
    return config


def load_trained_config(run: RunFolder) -> Config:
    """The configuration of a run whose objects are about to be built again.

    Raises:
        ValueError: as :func:`load_run_config`, or when its files would lie in a folder that does not exist: only the
            command that begins a run makes one, whatever a run that was received says.
    """
    config = load_run_config(run)
    before = [file for file in (run.search, run.race) if file.exists() and not run.finished]
    for each in (config, *(check_base(read_json(file).get("base"), file.name) for file in before)):
        in_memory = each.engine in ENGINES and not ENGINES[each.engine].needs_folder
        if each.disk and not in_memory and not Path(each.disk).is_dir():
            raise ValueError(f"`disk` of {str(run.path)!r} must be a folder that exists. Got {shorten(each.disk)}.")
    return config


def _check_settings(run: RunFolder, now: dict[str, Any]) -> None:
    """Raise ValueError where a setting is another than at the start; runs of older versions store none."""
    environment = read_json(run.environment) if run.environment.is_file() else {}
    began = environment.get("settings", now)
    if not isinstance(began, dict):
        raise ValueError(f"`settings` in {run.environment.name} must be settings. Got {shorten(began)}.")
    began = {**settings_of(Config()), **began}  # a setting that is younger than the run was at its default
    names = [name for name in {**began, **now} if began.get(name) != now.get(name) and name not in MAY_CHANGE]
    if names:
        changes = [f"{name} was {_shown(began, name)} and is {_shown(now, name)}" for name in names]
        raise ValueError(
            f"A run must keep the settings that it began with. In {run.config} {', '.join(changes)}: "
            "put that back, or train anew."
        )


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return shorten(settings[name]) if name in settings else "not set"


def check_unchanged(
    run: RunFolder,
    digests: Mapping[str, str],
    config: Config,
    shards: str = "",
    began: Mapping[str, Any] | None = None,
) -> None:
    """Raise ValueError where a digest is not the one that the run began with; runs of older versions store some.

    `began` holds those digests; None: `environment.json` does.
    """
    if began is None:
        began = read_json(run.environment) if run.environment.is_file() else {}
    for name, digest in digests.items():
        if began.get(name) not in (None, digest):
            file = {"partition_sha256": config.partition.file, "shards_sha256": shards}.get(name)
            what = file or config.data.name
            raise ValueError(f"A run must go on with what it began with. {what!r} has changed since; train anew.")
