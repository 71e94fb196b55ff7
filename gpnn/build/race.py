"""The race of a run: recipes tried on validation, the best one made the run's."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from gpnn.build.objects import Built, build, build_data
from gpnn.build.unchanged import adopt_config, check_base, digests_of, record
from gpnn.config import Config, parse_config
from gpnn.data.facts import GraphFacts
from gpnn.data.features import transform_data
from gpnn.distributed import ShardedPlan, group_of
from gpnn.graph import as_graph
from gpnn.race import RaceRecord, Trial, choose_members, parse_budget, run_race, shard_members
from gpnn.recipes import DEFAULT, RECIPES, NamedRecipe
from gpnn.run.folder import RunFolder
from gpnn.storage.atomic import write_json
from gpnn.storage.read import read_json, shorten
from gpnn.train.fit import Callback
from gpnn.train.notes import count_one_way


@dataclass(frozen=True)
class Race:
    """A race of recipes around a configuration.

    Attributes:
        base: the configuration, as TOML.
        fixed: the dotted names of the settings that every recipe keeps as the base has them.
        record: what was decided and done, or None before that.
        winner: the recipe that won, or None before that.
    """

    base: str
    fixed: tuple[str, ...] = ()
    record: RaceRecord | None = None
    winner: str | None = None
    file: ClassVar[str] = "race.json"

    def to_mapping(self) -> dict[str, Any]:
        """The race as JSON holds it."""
        record = None if self.record is None else self.record.to_mapping()
        return {"base": self.base, "fixed": list(self.fixed), "record": record, "winner": self.winner}

    def to_json(self) -> str:
        """The text of its file."""
        return json.dumps(self.to_mapping()) + "\n"

    def config(self, name: str, data: Mapping[str, Any] | None = None) -> Config:
        """The configuration of a recipe: the base's data, device and fixed settings, all else as the recipe has it.

        Args:
            name: of the recipe.
            data: settings of [data] that are the recipe's where they are not fixed.
        """
        base = tomllib.loads(self.base)
        nested = {key: value for key, value in base.items() if not isinstance(value, dict)}
        nested |= {"recipe": name, "data": base.get("data", {})}
        for section, _, rest in (key.partition(".") for key in self.fixed if "." in key):
            setting = rest.partition(".")[0]  # a table is kept whole
            if setting in base.get(section, {}):
                nested.setdefault(section, {})[setting] = base[section][setting]
        own = {key: value for key, value in (data or {}).items() if f"data.{key}" not in self.fixed}
        nested["data"] = {**nested["data"], **own}
        config, problems = parse_config(nested)
        assert not problems, problems
        return config


def race_run(
    run: RunFolder,
    begun: Built,
    *,
    callbacks: Sequence[Callback] = (),
    on_record: Callable[[RaceRecord], None] | None = None,
) -> Built | None:
    """Do what is left of a run's race, make the best recipe the run's, and build it; None if interrupted; collective.

    A run without a race keeps the objects that it began with.

    Args:
        run: the run folder; its `race.json` holds what was decided and a row per training and rung, validation only.
        begun: the objects that the run began with; no recipe changes their data.
        callbacks: of every training; one that ends a training ends the race.
        on_record: called with the decision and, after each training, with the record that holds its row.
    """
    group = group_of(begun.plan)
    noted = group.run_on_rank0(lambda: read_race(run.race).to_mapping() if run.race.exists() else None)
    if noted is None or noted["winner"] is not None:
        return begun
    race = parse_race(noted, run.race.name)
    names = _members(begun) if race.record is None else list(race.record.costs)
    variants = _Variants(begun)
    starts = {name: _Start(race.config(name, variants.settings(RECIPES[name])), variants) for name in names}

    def keep(record: RaceRecord) -> None:
        nonlocal race
        race = replace(race, record=record)
        if group.rank == 0:
            write_json(run.race, race.to_mapping())
        if on_record is not None:
            on_record(record)

    winner, limit = next(iter(starts)), None
    if len(starts) > 1 or race.record is not None:
        budget = parse_budget(begun.config.budget)
        raced = run_race(
            starts, run.path / "race", budget=budget, record=race.record, on_record=keep, callbacks=callbacks
        )
        if not raced.finalists:
            return None
        winner, limit = raced.finalists[0], raced.limit(raced.finalists[0])
    built = starts[winner].build(limit)
    if group.rank == 0:
        _take_checkpoint(run, winner)
        _adopt(run, built)
        write_json(run.race, replace(race, winner=winner).to_mapping())
    group.barrier()
    return built


def read_race(path: Path) -> Race:
    """The race that a run's `race.json` notes.

    Raises:
        ValueError: when it notes something else.
    """
    return parse_race(read_json(path), path.name)


def parse_race(noted: Any, file: str) -> Race:
    """The race of :meth:`Race.to_mapping`; `file` is where it stands."""
    kinds = {"base": str, "fixed": list, "record": dict | None, "winner": str | None}
    wrong = [name for name, kind in kinds.items() if name not in noted or not isinstance(noted[name], kind)]
    wrong = wrong or sorted(set(noted) - set(kinds))
    wrong = wrong or ([] if all(isinstance(key, str) for key in noted["fixed"]) else ["fixed"])
    if wrong:
        raise ValueError(f"{file} must note a race. Got another {shorten(wrong[0])}.")
    check_base(noted["base"], file)
    record = None if noted["record"] is None else RaceRecord.from_mapping(noted["record"], file)
    names = [*(record.costs if record is not None else ()), *([noted["winner"]] if noted["winner"] else ())]
    for name in names:
        if name not in RECIPES:
            raise ValueError(f"{file} must note recipes that there are. Got {shorten(name)}.")
    return Race(noted["base"], tuple(noted["fixed"]), record, noted["winner"])


class _Start:
    """Makes the objects of one recipe as often as they are needed; what was chosen the first time stays."""

    def __init__(self, config: Config, variants: _Variants) -> None:
        self.config, self.variants = config, variants

    def __call__(self) -> Trial:
        built = self.build()
        self.config = built.config
        return Trial(built.model, built.data, built.plan, built.config.train, built.config.seed)

    def build(self, epochs: int | None = None) -> Built:
        """The objects, with fewer epochs where these are given."""
        train = self.config.train if epochs is None else replace(self.config.train, epochs=epochs)
        return self.variants.build(replace(self.config, train=train))


class _Variants:
    """The data of a run, with edges and features as the recipes take them, each made once."""

    def __init__(self, begun: Built) -> None:
        self.begun, self.made = begun, dict[tuple[Any, ...], Any]()

    def settings(self, recipe: NamedRecipe) -> dict[str, Any]:
        """The settings of [data] that are a recipe's; shards stay as they are."""
        return {} if isinstance(self.begun.plan, ShardedPlan) else recipe.data_settings(**self._edges)

    @cached_property
    def _edges(self) -> dict[str, Any]:
        """Whether the graph has edges without a reverse, or had some before they were added, and its edge types."""
        graph, reversed_ = as_graph(self.begun.data), bool(self.begun.config.data.undirected)
        return {"one_way": reversed_ or count_one_way(graph) > 0, "num_edge_types": graph.num_edge_types}

    def build(self, config: Config) -> Built:
        """The objects of a configuration."""
        own, given = config.data, self.begun.config.data
        if own == given:
            return self.begun.build_other(config)
        key = own.undirected, own.scale_features
        if key not in self.made:
            same = own.scale_features == given.scale_features
            data = transform_data(self.begun.data, undirected=own.undirected) if same else build_data(config)
            self.made[key] = data
        return build(config, self.made[key])


def _members(begun: Built) -> list[str]:
    """The recipes that can be tried; without validation nodes the default alone."""
    if isinstance(begun.plan, ShardedPlan):
        return shard_members()
    facts = GraphFacts.of(begun.data)
    return choose_members(facts) if facts.num_validation else [DEFAULT]


def _adopt(run: RunFolder, built: Built) -> None:
    """Make a configuration the run's, and the data with the edges that it adds; a kill in between leaves no digest."""
    if isinstance(built.plan, ShardedPlan):
        adopt_config(run, built.config)
        return
    record(run, data_sha256=None)
    adopt_config(run, built.config)
    record(run, **digests_of(built))


def _take_checkpoint(run: RunFolder, name: str) -> None:
    """Make a recipe's checkpoint the run's; those of the others are removed."""
    place = run.path / "race" / name
    if place.exists():
        shutil.rmtree(run.checkpoint.parent, ignore_errors=True)
        place.replace(run.checkpoint.parent)
    shutil.rmtree(run.path / "race", ignore_errors=True)
