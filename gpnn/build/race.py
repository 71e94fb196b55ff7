"""The race of a run: recipes tried on validation, the best one made the run's."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from gpnn.build.finish import keep_training, write_member
from gpnn.build.objects import Begun, Built, OwnShard, build, build_data
from gpnn.build.unchanged import adopt_config, check_noted, digests_of, record
from gpnn.check import parse_memory
from gpnn.config import Config, sound_config
from gpnn.data.splits import GraphFacts, count_labels, split_mask
from gpnn.distributed import ShardedPlan
from gpnn.distributed.process_group import RankFailed
from gpnn.memory.engine import DoesNotFit
from gpnn.race import Finals, RaceRecord, Start, Variants, choose_members, parse_budget, run_race
from gpnn.race.halving import CHECKPOINT, agree_on_refusal, least_refusal
from gpnn.recipes import DEFAULT, LARGE, LARGE_GRAPH, RECIPES
from gpnn.run.folder import RunFolder
from gpnn.storage.atomic import write_json
from gpnn.storage.read import read_json, shorten
from gpnn.train.fit import Callback
from gpnn.train.task import task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Race:
    """A race of recipes around a configuration.

    Attributes:
        base: the configuration, as TOML.
        fixed: the dotted names of the settings that every recipe keeps as the base has them.
        record: what was decided and done, or None before that.
        winner: the recipe that won, or None before that.
        began: the digests of the base's data where the run was stopped in the race, so that `config.toml` is another's.
    """

    base: str
    fixed: tuple[str, ...] = ()
    record: RaceRecord | None = None
    winner: str | None = None
    began: Mapping[str, str] | None = None
    file: ClassVar[str] = "race.json"

    def to_mapping(self) -> dict[str, Any]:
        """The race as JSON holds it."""
        record = None if self.record is None else self.record.to_mapping()
        noted = {"base": self.base, "fixed": list(self.fixed), "record": record, "winner": self.winner}
        return noted if self.began is None else {**noted, "began": dict(self.began)}

    def to_json(self) -> str:
        """The text of its file."""
        return json.dumps(self.to_mapping()) + "\n"

    def base_config(self) -> Config:
        """The base."""
        return sound_config(tomllib.loads(self.base))

    def with_budget(self, budget: str | float) -> Race:
        """The same with another budget for all that is left."""
        seconds, record = parse_budget(budget), self.record
        if record is not None and seconds is not None:
            record = replace(record, budget=seconds)
        return replace(self, base=replace(self.base_config(), budget=budget).to_toml(), record=record)

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
        nested["train"] = {**RECIPES[name].train_settings, **nested.get("train", {})}
        return sound_config(nested)


def begin_race(race: Race, begun: Begun) -> Begun:
    """What a race begins with; nothing to train is kept but what the race builds first; collective.

    Of a race that has not decided yet, a recipe is built, so that mistakes in settings and a graph that none fits in
    memory with are told at once: the default or, of a large graph, `large`; where that does not fit, another.

    Raises:
        ValueError: when the configuration does not suit the data.
        DoesNotFit: when no recipe fits in memory.
    """
    if race.record is not None:
        return begun
    race = replace(race, base=begun.config.to_toml())  # as its folder notes it
    first = [LARGE, DEFAULT] if begun.data.num_nodes >= LARGE_GRAPH and begun.own is None else [DEFAULT]
    refused: dict[str, Exception] = {}
    for names in (lambda: first, lambda: _members(race, begun, _variants(begun))):  # whose facts take their time
        for name in names():
            if name in refused:
                continue
            config = race.config(name)
            try:
                built = begun.build_other(config)
            except (DoesNotFit, RankFailed) as refusal:
                refused[name] = agree_on_refusal(refusal, begun.group)
            else:
                return replace(begun, ready=name, build_other=_Ready(config, built, begun.build_other))
    raise least_refusal(refused)


class _Ready:
    """Builds configurations, of which one is built already: it serves the first call, or is dropped then."""

    def __init__(self, config: Config, built: Built, build_other: Callable[[Config], Built]) -> None:
        self._ready: tuple[Config, Built] | None = (config, built)
        self._build = build_other

    def __call__(self, config: Config) -> Built:
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] == config:
            return ready[1]
        del ready
        return self._build(config)


def race_run(
    run: RunFolder,
    begun: Begun,
    *,
    callbacks: Sequence[Callback] = (),
    on_record: Callable[[RaceRecord], None] | None = None,
    on_training: Callable[[int, str, int], None] | None = None,
    on_measure: Callable[[str], None] | None = None,
) -> Built | None:
    """Do what is left of a run's race, make the best recipe the run's, and build it; None if interrupted; collective.

    A run without a race keeps the objects that it began with. One that is interrupted has the predictions of the best
    training so far.

    Args:
        run: the run folder; its `race.json` holds what was decided and a row per training and rung, validation only.
        begun: what the run began with; no recipe changes its data.
        callbacks: of every training; one that ends a training ends the race.
        on_record: called with the decision and, after each training, with the record that holds its row.
        on_training: called before each training with its rung, the name of its recipe, and the epoch it goes to.
        on_measure: called with the name of a recipe before an epoch of it is measured.
    """
    group = begun.group
    noted = group.run_on_rank0(lambda: read_race(run.race).to_mapping() if run.race.exists() else None)
    if noted is None or noted["winner"] is not None:
        assert isinstance(begun, Built)
        return begun
    race = parse_race(noted, run.race.name)
    variants = _variants(begun)
    names = _members(race, begun, variants) if race.record is None else list(race.record.costs)
    starts, folder = _starts(names, race, begun, variants), run.path / "race"

    def keep(record: RaceRecord) -> None:
        nonlocal race
        race = replace(race, record=record)
        if group.rank == 0:
            write_json(run.race, race.to_mapping())
        if on_record is not None:
            on_record(record)

    raced = None
    if len(starts) > 1 or race.record is not None:
        raced = run_race(
            starts,
            folder,
            budget=parse_budget(begun.config.budget),
            record=race.record,
            on_record=keep,
            on_training=on_training,
            on_measure=on_measure,
            callbacks=callbacks,
            group=group,
            first=begun.ready,
        )
    finals = Finals(starts, folder, raced)
    if raced is not None and raced.interrupted is None and begun.config.blend:
        raced = finals.blend(begun.data, group, on_record=keep, on_training=on_training, callbacks=callbacks)
    if raced is not None and raced.interrupted is not None:
        if raced.leader is not None:
            _keep_leader(run, race, starts[raced.leader](), raced.leader)
        return None
    return _adopt_winner(run, race, finals)


def _adopt_winner(run: RunFolder, race: Race, finals: Finals[Built]) -> Built:
    """Write the other members of the blend, make the heaviest one the run's, and build it; collective."""
    winner, *members = finals.members
    for name in members:
        if not RunFolder(run.members / name).finished:
            write_member(run, name, *finals.train(name))
    built = finals.build(winner)
    group = built.group
    if group.rank == 0:
        run.take_checkpoint(finals.folder / winner)
        _adopt(run, built)
        write_json(run.race, replace(race, winner=winner, began=None).to_mapping())
    group.barrier()
    return built


def _variants(begun: Begun) -> Variants:
    """The run's data as recipes take them; features of another scale are read again."""
    given = begun.config.data

    def rescale(scale: Any) -> Data:
        return build_data(replace(begun.config, data=replace(given, scale_features=scale)))

    memory = parse_memory("memory", begun.config.memory)
    return Variants(begun.data, given.undirected, given.scale_features, rescale, memory)


def _starts(names: Sequence[str], race: Race, begun: Begun, variants: Variants) -> dict[str, Start[Built]]:
    """How the training of each recipe is built, over the run's data as the recipe takes them."""

    def build_variant(config: Config) -> Built:
        own = config.data
        if own == begun.config.data:
            return begun.build_other(config)
        return build(config, variants.get(undirected=own.undirected, scale_features=own.scale_features))

    def start(name: str) -> Start[Built]:
        own = {} if begun.own is not None else variants.settings(RECIPES[name])  # shards stay as they are
        config = race.config(name, own)
        return Start(lambda recipe: build_variant(replace(config, train=recipe)), config.train)

    return {name: start(name) for name in names}


def _keep_leader(run: RunFolder, race: Race, built: Built, name: str) -> None:
    """Let the best training so far serve predictions; the race notes what it began with; collective."""

    def adopt() -> None:
        if race.began is None:
            environment = read_json(run.environment)
            digests = {key: environment[key] for key in ("data_sha256", "partition_sha256") if environment.get(key)}
            write_json(run.race, replace(race, began=digests).to_mapping())
        _adopt(run, built)

    keep_training(run, built, run.path / "race" / name / CHECKPOINT, adopt)


def unfinished_race(run: RunFolder) -> Race | None:
    """The race of a run that has no winner yet, or None."""
    race = read_race(run.race) if run.race.exists() else None
    return race if race is not None and race.winner is None else None


def read_race(path: Path) -> Race:
    """The race that a run's `race.json` notes.

    Raises:
        ValueError: when it notes something else.
    """
    return parse_race(read_json(path), path.name)


def parse_race(noted: Any, file: str) -> Race:
    """The race of :meth:`Race.to_mapping`; `file` is where it stands."""
    check_noted(noted, {"record": dict | None, "winner": str | None, "began": dict | None}, file, "race")
    record = None if noted.get("record") is None else RaceRecord.from_mapping(noted["record"], file)
    race = Race(noted["base"], tuple(noted["fixed"]), record, noted.get("winner"), noted.get("began"))
    for name in (*(() if record is None else record.costs), race.winner):
        if name is not None and name not in RECIPES:
            raise ValueError(f"{file} must note recipes that there are. Got {shorten(name)}.")
    return race


def _members(race: Race, begun: Begun, variants: Variants) -> list[str]:
    """The recipes that can be tried; collective."""
    if begun.own is not None:
        return choose_members(_shard_facts(begun.own), in_shards=True)
    return choose_members(variants.facts(scale_is_set="data.scale_features" in race.fixed))


def _shard_facts(own: OwnShard) -> GraphFacts:
    """The facts of a graph whose nodes several processes share; whether neighbours are alike is not known."""
    data, x = own.data, own.data.get("x")
    train, val = (split_mask(data, split) for split in ("train", "val"))
    counts = [int(train.sum()), count_labels(data.y, train), int(val.sum())]
    num_labels, num_given, num_validation = own.group.all_reduce(torch.tensor(counts)).tolist()
    return GraphFacts(
        num_nodes=own.shard.totals.num_nodes,
        num_columns=0 if x is None else x.shape[1],
        num_labels=num_labels,
        labels_per_class=num_given / task_of(data).num_outputs,
        num_validation=num_validation,
    )


def _adopt(run: RunFolder, built: Built) -> None:
    """Make a configuration the run's, and the data with the edges that it adds; a kill in between leaves no digest."""
    if isinstance(built.plan, ShardedPlan):
        adopt_config(run, built.config)
        return
    record(run, data_sha256=None)
    adopt_config(run, built.config)
    record(run, **digests_of(built))
