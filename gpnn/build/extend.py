"""A run that goes on for longer: the settings that may change then, and when they may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpnn.build.names import load_config
from gpnn.build.race import unfinished_race
from gpnn.build.search import check_searched
from gpnn.build.unchanged import adopt_config
from gpnn.config import Config, parse_config, read_settings
from gpnn.run.folder import RunFolder
from gpnn.setting_names import unknown_settings
from gpnn.storage.atomic import write_json
from gpnn.storage.read import flatten, shorten
from gpnn.train.recipe import Recipe

EXTENDABLE = ("train.epochs", "train.patience", "budget")


def extend_config(run: RunFolder, config: Config, words: Sequence[str]) -> Config:
    """The configuration of a run that goes on, with `train.epochs`, `train.patience` or `budget` as the words have it.

    Args:
        run: the run; where it is finished, the words must let it go on.
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
    """Note in a run that goes on for how long, as `config` has it; whether that is another than before."""
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
                "A run goes on with the settings that it began with; only train.epochs, train.patience and budget may "
                f"change. Got {name}."
            )


def _check_moment(run: RunFolder, given: Mapping[str, Any]) -> None:
    """Raise ValueError for a budget without a race to do, and for the length of a training that is not chosen yet."""
    race = unfinished_race(run)
    if race is None and "budget" in given:
        raise ValueError("`budget` is of a race that is not over. This run has none: train.epochs lets it go on.")
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
