"""Names and options of a configuration, checked against the tables they are looked up in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpnn.build.objects import model_options
from gpnn.check import parse_memory
from gpnn.config import Config, parse_config, read_settings
from gpnn.config.values import convert, describe
from gpnn.data import DATASETS
from gpnn.data.load import own_loader, unknown_source
from gpnn.data.tables import tables
from gpnn.divide import METHODS
from gpnn.engine import NORMALIZATIONS
from gpnn.memory.engine import check_engine
from gpnn.nn import GPNN
from gpnn.nn.models import MODELS
from gpnn.partition import PARTITIONERS
from gpnn.pipeline import LEARNED, resolve_options
from gpnn.race import parse_budget
from gpnn.schedule import SCHEDULES
from gpnn.schedule.make_schedule import schedule_options
from gpnn.setting_names import unknown_setting
from gpnn.train.columns.settings import METHODS as COLUMN_METHODS
from gpnn.train.learn_partition import PartitionRecipe


def load_config(file: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """The configuration of a TOML file with `section.key=value` laid over it.

    Raises:
        ValueError: with one line for each unknown setting, wrong type, unknown name and unknown option.

    >>> load_config(overrides=["train.epochs=5"]).train.epochs
    5
    """
    config, problems = parse_config(read_settings(file, overrides))
    problems += check_names(config)
    if problems:
        raise ValueError("\n".join(_shown(problems)))
    return config


def _shown(problems: Sequence[str], longest: int = 500, together: int = 1500) -> list[str]:
    """The first sentences, those with long values cut, and how many more there are."""
    shown: list[str] = []
    for problem in problems:
        if sum(map(len, shown)) > together:
            return [*shown, f"Further settings that must be put right: {len(problems) - len(shown)}."]
        shown.append(problem if len(problem) <= longest else f"{problem[: longest - 2]}….")
    return shown


def check_names(config: Config) -> list[str]:
    """A sentence for every name that its table lacks and every option that its entry does not take."""
    problems = []
    for section, key, table, options in (
        ("data", "name", _datasets(config.data.name), dataset_options),
        ("partition", "method", METHODS, partition_options),
        ("schedule", "name", ("auto", *SCHEDULES), _schedule_options),
    ):
        settings = getattr(config, section)
        name = getattr(settings, key)
        if name not in table:
            problems.append(
                unknown_source("`data.name`", name)
                if section == "data"
                else f"`{section}.{key}` must be one of {', '.join(table)}. Got {name!r}."
            )
        else:
            problems += _check_options(section, settings.options, options(name))
    rule = config.schedule.normalization
    if rule not in NORMALIZATIONS:
        problems.append(f"`schedule.normalization` must be one of {', '.join(NORMALIZATIONS)}. Got {rule!r}.")
    if config.seed < 0:
        problems.append(f"`seed` must be at least 0. Got {config.seed}.")
    if config.threads != "auto" and config.threads < 1:
        problems.append(f"`threads` must be at least 1. Got {config.threads}.")
    for name, size in (("memory", config.memory), ("device_memory", config.device_memory)):
        try:
            parse_memory(name, size)
        except ValueError as error:
            problems.append(str(error))
    try:
        parse_budget(config.budget)
    except ValueError as error:
        problems.append(str(error))
    try:
        check_engine(config.engine, config.disk or None)
    except ValueError as error:
        problems.append(str(error))
    return problems + _check_model(config)


def dataset_options(name: str) -> dict[str, inspect.Parameter]:
    """The options of a dataset's loader, or of the reader of a user's own folder or file, by name."""
    loader = DATASETS.get(name) or own_loader(Path(name)) or tables
    parameters = inspect.signature(loader).parameters
    return {key: value for key, value in parameters.items() if value.kind == value.KEYWORD_ONLY}


def partition_options(method: str) -> dict[str, inspect.Parameter]:
    """The options of a partitioner, by name."""
    maker = PartitionRecipe if method == LEARNED else PARTITIONERS[method]
    parameters = inspect.signature(maker).parameters
    given = ("graph", "k", "seed", "train_nodes")
    return {key: value for key, value in parameters.items() if key not in given}


def _schedule_options(name: str) -> dict[str, inspect.Parameter]:
    """The options of a schedule, by name; those that "auto" takes are the partition schedule's."""
    return schedule_options("partitioned" if name == "auto" else name)


def _datasets(name: str) -> list[str]:
    return [*DATASETS, *([name] if own_loader(Path(name)) else [])]


def _check_options(section: str, options: Mapping[str, Any], known: Mapping[str, inspect.Parameter]) -> list[str]:
    problems = []
    for name, value in options.items():
        if name not in known:
            problems.append(unknown_setting(f"{section}.{name}", [f"{section}.{each}" for each in known]))
            continue
        default = known[name].default
        kind = type(default)
        try:
            convert(value, kind if kind in (bool, int, float, str) else Any)
        except TypeError:
            problems.append(f"`{section}.{name}` must be {describe(kind)}. Got {value!r}.")
    return problems


def _check_model(config: Config) -> list[str]:
    """What the smallest model of this kind reports of its settings."""
    for key, value, table in (("name", config.model.name, MODELS), ("method", config.model.method, COLUMN_METHODS)):
        if value not in table:
            return [f"`model.{key}` must be one of {', '.join(table)}. Got {value!r}."]
    if config.model.name != "gpnn":
        return []
    options = resolve_options(model_options(config), has_features=True)
    try:
        GPNN(1, 1, 1, **options, num_nodes=1, num_rounds=1)
    except ValueError as error:
        return [str(error).replace("`", "`model.", 1)]
    return []
