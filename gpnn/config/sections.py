"""The sections of a configuration as frozen dataclasses; a configuration's defaults are its recipe's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

from gpnn.pipeline import Auto
from gpnn.recipes import AUTO, DEFAULT, find_recipe
from gpnn.train.recipe import Recipe

Options = dict[str, Any]


@dataclass(frozen=True)
class DataConfig:
    """[data]: the graph and how it is transformed; other keys are the loader's own.

    Attributes:
        name: a dataset, or the path of a folder of tables or of a graph file.
        root: folder of downloaded data; empty: GPNN_DATA, else the user's cache.
        undirected: add the reverse of every edge that lacks it; "typed": add that of every edge, as another type;
            "directions": the same, where all types that were given count as one.
        scale_features: "rows": the absolute values of each node's features sum to one; "none"; "auto": "rows" where
            there are several, none is negative, and they are at most two billion values.
    """

    name: str = "digits"
    root: str = ""
    undirected: bool | Literal["typed", "directions"] = False
    scale_features: Literal["auto", "none", "rows"] = "auto"
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class PartitionConfig:
    """[partition]: how the graph is divided into subgraphs; other keys are the method's own.

    Attributes:
        method: how the graph is divided, a name of :data:`gpnn.partition.PARTITIONERS`: flood_fill, refined,
            clustered, spectral, metis, mtkahypar, random, components, given, auto; or learned.
        k: number of subgraphs K; "auto" follows the number of nodes.
        file: a saved partition to take instead.
    """

    method: str = "flood_fill"
    k: int | Auto = "auto"
    file: str = ""
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class ScheduleConfig:
    """[schedule]: the schedule and how its messages are normalised; other keys are the schedule's own.

    Attributes:
        name: which messages are sent when, a name of :data:`gpnn.schedule.SCHEDULES`: synchronous, partitioned,
            held_cut, sequential, spanning_trees, random_edges, waves, centrality, priority; "auto" is the partition
            schedule, with its options, or another where that is the better choice
            (:func:`gpnn.schedule.make_schedule.choose_schedule`).
        rounds: number of rounds T; "auto" follows the graph's density.
        normalization: how messages are weighted: phase, graph, split, symmetric or symmetric_split.
        self_loops: every node also receives its own message.
    """

    name: str = "auto"
    rounds: int | Auto = "auto"
    normalization: str = "phase"
    self_loops: bool = False
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class ModelConfig:
    """[model]: the model, a name of :data:`gpnn.nn.MODELS`, and its arguments that the graph does not give.

    `method` and `labels` are those of "columns" (:func:`gpnn.train.column_settings.column_arguments`), all others of
    :class:`gpnn.nn.GPNN`.

    Settings at "auto" are chosen by the cell and by what the graph has: :func:`gpnn.pipeline.resolve_options`.

    Attributes:
        name: the model, a name of :data:`gpnn.nn.MODELS`.
        method: of the model "columns": "linear", "trees", or "auto": by the number of columns.
        labels: of the model "columns": whether the training labels of neighbours are among the columns.
        embedding_start: "features": embeddings start from the features where there are any; "random".
        embedding_scale: "unit" scales embeddings that start from features to norm one; "none" takes them as they are.
        standardize: whether the model takes dense features in standard units; "auto": where their columns have
            different units, such as years beside shares (:func:`gpnn.data.features.have_units`).
    """

    name: str = "gpnn"
    method: str = "auto"
    labels: bool = True
    hidden_channels: int | Auto = "auto"
    cell: str = "gru"
    message: str = "identity"
    aggregate: str = "mean"
    sharing: str = "shared"
    input: str = "auto"
    embedding_start: Literal["features", "random"] = "features"
    embedding_scale: Literal["unit", "none"] = "unit"
    encoder: tuple[int, ...] = ()
    predict: str = "auto"
    activation: str = "auto"
    concat: str = "auto"
    head: tuple[int, ...] = ()
    readout: str = "auto"
    input_dropout: float = 0.0
    state_dropout: float = 0.0
    update_dropout: float = 0.0
    dropout: float = 0.0
    drop_node: float = 0.0
    norm: str = "none"
    standardize: bool | Literal["auto"] = "auto"
    cell_options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """Everything that decides a run; [train] is :class:`gpnn.train.Recipe`.

    Attributes:
        recipe: a name of :data:`gpnn.recipes.RECIPES`, which gives the defaults of all other settings; "auto": a race
            chooses the recipe with the best validation metric, and keeps the settings that are given.
        budget: time of a race, such as "90s", "10m" or "1h"; "auto" follows the numbers of nodes and recipes.
        blend: whether the recipes of a race are averaged, with the weights of the least validation loss.
        seed: of partition, schedule, initial weights and random masks (a dataset's own seed is `data.seed`).
        device: "auto", "cpu", "cuda" or "cuda:N".
        threads: CPU threads of a training from the command line; "auto" is one for a small graph, else all.
        deterministic: whether a training from the command line gives the same bits each time on a GPU; on a CPU it
            always does.
        engine: how the plan is run, a name of `gpnn.memory.engine.ENGINES`; "auto" is the fastest that fits in memory.
        memory: the most memory of a training, in each process, such as "16GiB" or "20GB"; a number is GB; "auto" is
            most of what is free, within the limits of the process.
        device_memory: the most memory of its GPU, which is enforced; "auto" is most of what is free there.
        disk: folder for files of states and features when memory is short; empty: there are no such files. It must be
            empty for several processes.

    >>> Config().data.name, Config.of("gated").model.cell
    ('digits', 'gru')
    """

    recipe: str = DEFAULT
    budget: str | float = AUTO
    blend: bool = True
    seed: int = 0
    device: str = "auto"
    threads: int | Auto = "auto"
    deterministic: bool = False
    engine: str = "auto"
    memory: str | float = AUTO
    device_memory: str | float = AUTO
    disk: str = ""
    data: DataConfig = field(default_factory=DataConfig)
    partition: PartitionConfig = field(default_factory=lambda: _partition(DEFAULT))
    schedule: ScheduleConfig = field(default_factory=lambda: _schedule(DEFAULT))
    model: ModelConfig = field(default_factory=lambda: _model(DEFAULT))
    train: Recipe = find_recipe(DEFAULT).train

    @classmethod
    def of(cls, recipe: str) -> Config:
        """The configuration that a recipe alone gives; "auto" starts from the default recipe's.

        Raises:
            ValueError: when there is no recipe of this name.
        """
        name, recipe = recipe, DEFAULT if recipe == AUTO else recipe
        found = find_recipe(recipe)
        data = DataConfig(scale_features=found.scale_features)
        return cls(
            name,
            data=data,
            partition=_partition(recipe),
            schedule=_schedule(recipe),
            model=_model(recipe),
            train=found.train,
        )

    def to_mapping(self) -> dict[str, Any]:
        """The settings as nested plain values, a section's options among its keys."""
        return _to_mapping(self)

    def to_toml(self) -> str:
        """The settings as a TOML file, which :func:`parse_config` reads back to an equal Config."""
        return dump_toml(self.to_mapping())


SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "partition": PartitionConfig,
    "schedule": ScheduleConfig,
    "model": ModelConfig,
    "train": Recipe,
}


def _partition(recipe: str) -> PartitionConfig:
    pipeline = find_recipe(recipe).pipeline
    return PartitionConfig(pipeline.partition, pipeline.k, options=dict(pipeline.partition_options))


def _schedule(recipe: str) -> ScheduleConfig:
    given = find_recipe(recipe).pipeline
    options = dict(given.schedule_options)
    return ScheduleConfig(given.schedule, given.rounds, given.normalization, given.self_loops, options)


def _model(recipe: str) -> ModelConfig:
    pipeline = find_recipe(recipe).pipeline
    start: Any = pipeline.embedding_start
    return replace(
        ModelConfig(),
        name=pipeline.model,
        hidden_channels=pipeline.hidden_channels,
        embedding_start=start,
        **pipeline.model_options,
    )


def _to_mapping(section: Any) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for each in fields(section):
        value = getattr(section, each.name)
        if is_dataclass(value):
            mapping[each.name] = _to_mapping(value)
        elif each.name == "options":
            mapping |= value
        else:
            mapping[each.name] = list(value) if isinstance(value, tuple) else value
    return mapping


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dump_toml(settings: Mapping[str, Any]) -> str:
    """Nested mappings of strings, numbers, truth values and lists as TOML; None is left out.

    >>> print(dump_toml({"seed": 0, "train": {"epochs": 5, "head": [1, 2]}}), end="")
    seed = 0
    <BLANKLINE>
    [train]
    epochs = 5
    head = [1, 2]
    """
    return "\n".join(_lines("", settings)).strip("\n") + "\n"


def _lines(name: str, table: Mapping[str, Any]) -> list[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    values = {key: value for key, value in table.items() if key not in tables and value is not None}
    lines = ["", f"[{name}]"] if name and (values or not tables) else []
    lines += [f"{_key(key)} = {_value(value)}" for key, value in values.items()]
    for key, value in tables.items():
        if value:
            lines += _lines(f"{name}.{_key(key)}" if name else _key(key), value)
    return lines


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    raise ValueError(f"A setting must be text, a number, true or false, or a list of these. Got {value!r}.")


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for the one control character that JSON leaves alone
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
