"""Names and options of a configuration, checked; and what must not change when a run is resumed."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gpnn.build.objects import Begun, model_options
from gpnn.check import check_seed, convert, describe, parse_memory, unknown_setting
from gpnn.config import Config, parse_config, read_settings
from gpnn.data import DATASETS
from gpnn.data.check import digest_data, digest_labels
from gpnn.data.load import own_loader, unknown_source
from gpnn.data.tables import tables
from gpnn.divide import METHODS, method_options
from gpnn.engine import NORMALIZATIONS
from gpnn.memory.engine import ENGINES, check_engine
from gpnn.nn import GPNN, MODELS
from gpnn.pipeline import resolve_options
from gpnn.race import parse_budget
from gpnn.run.folder import RunFolder
from gpnn.schedule import SCHEDULES
from gpnn.schedule.make_schedule import schedule_options
from gpnn.storage.atomic import finite, write_json, write_text
from gpnn.storage.read import flatten, read_json, shorten, wrong_field
from gpnn.train.column_settings import METHODS as COLUMN_METHODS


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
        raise ValueError("\n".join(_first_problems(problems)))
    return config


def _first_problems(problems: Sequence[str], longest: int = 500, together: int = 1500) -> list[str]:
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
        ("partition", "method", METHODS, method_options),
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
    if config.threads != "auto" and config.threads < 1:
        problems.append(f"`threads` must be at least 1. Got {config.threads}.")
    for check in (
        partial(check_seed, "seed", config.seed),
        partial(parse_memory, "memory", config.memory),
        partial(parse_memory, "device_memory", config.device_memory),
        partial(parse_budget, config.budget),
        partial(check_engine, config.engine, config.disk or None),
    ):
        problems += _problems_of(check)
    return problems + _check_model(config)


def _problems_of(check: Callable[[], object]) -> list[str]:
    """The sentence of the ValueError that a check raises; none where it raises none."""
    try:
        check()
    except ValueError as error:
        return [str(error)]
    return []


def dataset_options(name: str) -> dict[str, inspect.Parameter]:
    """The options of a dataset's loader, or of the reader of a user's own folder or file, by name."""
    loader = DATASETS.get(name) or own_loader(Path(name)) or tables
    parameters = inspect.signature(loader).parameters
    return {key: value for key, value in parameters.items() if value.kind == value.KEYWORD_ONLY}


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
            continue
        problems += _problems_of(partial(check_seed, f"{section}.seed", value)) if name == "seed" else []
    return problems


def _check_model(config: Config) -> list[str]:
    """What the smallest model of this kind reports of its settings."""
    for key, value, table in (("name", config.model.name, MODELS), ("method", config.model.method, COLUMN_METHODS)):
        if value not in table:
            return [f"`model.{key}` must be one of {', '.join(table)}. Got {value!r}."]
    if config.model.name != "gpnn":
        return []
    options = resolve_options(model_options(config), has_features=True)
    options |= {"standardize": options.get("standardize") is True}  # "auto" is decided by the features
    problems = _problems_of(partial(GPNN, 1, 1, 1, **options, num_nodes=1, num_rounds=1))
    return [problem.replace("`", "`model.", 1) for problem in problems]


HOW_LONG = ("train.epochs", "train.patience", "train.checkpoint_every", "train.checkpoint_seconds")
WHERE = ("device", "threads", "engine", "memory", "device_memory", "disk")
PLACES = ("data.name", "data.root", "data.nodes", "data.edges", "data.features", "data.labels", "partition.file")
MAY_CHANGE = (*HOW_LONG, *WHERE, *PLACES)  # what lies at the places is compared by its digest


def settings_of(config: Config) -> dict[str, Any]:
    """The settings by their dotted names, as `environment.json` keeps them."""
    return finite(dict(flatten(config.to_mapping())))


def adopt_config(run: RunFolder, config: Config) -> None:
    """Make a configuration the run's: that which a search or a race chose."""
    record(run, settings=settings_of(config))
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


def check_noted(noted: Any, kinds: Mapping[str, Any], name: str, what: str) -> None:
    """Check what the file `name` notes of a search or a race around a base configuration.

    Raises:
        ValueError: when a field is missing, unknown or of another kind, or the base is not a configuration.
    """
    wrong = wrong_field(noted, {"base": str, "fixed": list, **kinds})
    wrong = "fixed" if wrong is None and not all(isinstance(key, str) for key in noted["fixed"]) else wrong
    if wrong is not None:
        raise ValueError(f"{name} must note a {what}. Got another {shorten(wrong)}.")
    check_base(noted["base"], name)


def digests_of(begun: Begun) -> dict[str, str]:
    """Digests of what lies outside the run folder: the data and, where one was given, the file of subgraphs."""
    found = {"data_sha256": digest_data(begun.data)}
    if begun.partition is not None and begun.config.partition.file:
        found["partition_sha256"] = digest_labels(begun.partition.labels)
    return found


def record(run: RunFolder, **values: Any) -> None:
    """Write these values to the run's environment."""
    write_json(run.environment, {**read_json(run.environment), **values})


def load_run_config(run: RunFolder) -> Config:
    """The configuration of a run.

    Raises:
        ValueError: when it is not one, or a setting is not the one that the run began with.
    """
    config = load_config(run.config)
    if run.has_results or not (run.search.exists() or run.race.exists()):  # a resumed one writes config.toml anew
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
        changes = [f"{name[:80]} was {_shown(began, name)} and is {_shown(now, name)}" for name in names]
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
            raise ValueError(f"A run must keep the data that it began with. {what!r} has changed since; train anew.")
