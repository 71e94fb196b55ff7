"""The training of an estimator: of one recipe, or of those of a race, of which several may predict together."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.base import clone

from gpnn.check import check_options, parse_memory
from gpnn.data.features import choose_scale
from gpnn.pipeline import Assembly, Pipeline
from gpnn.progress import Progress
from gpnn.race import Finals, RaceRecord, Start, Variants, choose_members, parse_budget, run_race
from gpnn.recipes import AUTO, DEFAULT, OPEN, find_recipe, parse_training, training_seed
from gpnn.run.known_nodes import KnownNodes
from gpnn.train.blend import blend_predictions, keeps_shares
from gpnn.train.fit import Callback, FitResult
from gpnn.train.notes import Note, NoteWarning, take_notes, training_notes
from gpnn.train.recipe import Recipe

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.estimator.node_estimator import NodeEstimator

E = TypeVar("E", bound="NodeEstimator")

# the arguments of a pipeline, of its model's options and of a recipe
STRUCTURE = (
    "partition",
    "k",
    "schedule",
    "rounds",
    "schedule_options",
    "normalization",
    "self_loops",
    "hidden_channels",
)
CELL = ("cell", "input_dropout", "dropout", "drop_node")
TRAINING = ("epochs", "learning_rate", "weight_decay", "patience")


def train_estimator(
    estimator: NodeEstimator, data: Data, folder: Path, progress: Progress, callbacks: Sequence[Callback]
) -> None:
    """Train an estimator's recipe, or those of a race where none is chosen, which predict together.

    Args:
        estimator: gets the attributes of a fitted one.
        data: what to learn from, features as they are given.
        folder: of a race's checkpoints.
        progress: shows what is done.
        callbacks: of the training of the estimator's own model.

    Raises:
        ValueError: when the training diverged.
    """
    name = estimator.recipe or (DEFAULT if _chooses_model(estimator) else AUTO)
    memory, scale_is_set = parse_memory("memory", estimator.memory or "auto"), estimator.scale_features != "auto"
    variants = Variants(data, memory=memory)
    names = choose_members(variants.facts(scale_is_set=scale_is_set)) if name == AUTO else [name]
    settings = {each: _data_settings(estimator, each, variants, race=name == AUTO) for each in names}
    starts = {
        each: _start(estimator, each, partial(variants.get, **settings[each]), race=name == AUTO) for each in names
    }
    finals = _race(estimator, starts, data, folder, progress)
    (name, estimator.weight_), *others = finals.members.items()
    result = _train_finalist(estimator, finals, name, settings[name], progress, callbacks)
    if result.problem is not None or result.task is None:
        del estimator.model_  # what diverged predicts nothing
        raise ValueError(result.problem)
    _warn(estimator, training_notes(estimator.history_, estimator.task_.chance), 4)
    found = [result.prediction(estimator.weight_)]
    for name, weight in others:
        recipe, number = parse_training(name)
        member = _copy(estimator, training_seed(estimator.seed, number))
        result = _train_finalist(member, finals, name, settings[recipe], progress)
        estimator.members_[name] = weight, member
        found.append(result.prediction(weight))
    if others:
        weight_of = _recipe_of(estimator, estimator.recipe_, race=True).class_weight
        shares = keeps_shares(estimator.metrics_["metric"], weight_of)
        estimator.task_, _, scores = blend_predictions(found, data, shares=shares)
        estimator.metrics_ = {**estimator.metrics_, **scores, "num_members": len(found)}
    _print(estimator, json.dumps(estimator.metrics_))


def pipeline_of(estimator: NodeEstimator, name: str) -> Pipeline:
    """The plain arguments of a recipe with those that the estimator was given."""
    pipeline = find_recipe(name).pipeline
    options = {**pipeline.model_options, **_given(estimator, *CELL)}
    options |= estimator.model_options or {}
    start = options.pop("embedding_start", pipeline.embedding_start)
    own = _given(estimator, *STRUCTURE, "seed", "device", "engine", "disk")
    if pipeline.schedule == "auto":
        own.setdefault("schedule", "partitioned")  # which a saved estimator need not name
    if own.get("schedule", pipeline.schedule) != pipeline.schedule:
        own.setdefault("schedule_options", {})  # the recipe's are those of another schedule
    own |= {each: parse_memory(each, size) for each, size in _given(estimator, "memory", "device_memory").items()}
    return replace(pipeline, **own, model_options=options, embedding_start=start)


def _recipe_of(estimator: NodeEstimator, name: str, *, race: bool) -> Recipe:
    named = find_recipe(name)
    weight = {} if estimator.class_weight_ is None else {"class_weight": estimator.class_weight_}
    check_options("`train_options`", estimator.train_options or {}, [field.name for field in fields(Recipe)])
    own = {**_given(estimator, *TRAINING), **weight, **(estimator.train_options or {})}
    return replace(named.train, **{**(named.train_settings if race else {}), **own})


def _given(estimator: NodeEstimator, *names: str) -> dict[str, Any]:
    """The arguments of these names that are not None."""
    return {name: value for name in names if (value := getattr(estimator, name)) is not None}


def _chooses_model(estimator: NodeEstimator) -> bool:
    """Whether an argument chose the model, or how it is trained, so that there is nothing to race for."""
    open_ones = set(estimator.train_options or ()) <= set(OPEN)
    return bool(_given(estimator, *STRUCTURE, *CELL, *TRAINING, "model_options")) or not open_ones


def _data_settings(estimator: NodeEstimator, name: str, variants: Variants, *, race: bool) -> dict[str, Any]:
    """How a recipe takes the data; reverses are added in a race alone."""
    recipe = find_recipe(name)
    own = variants.settings(recipe) if race else recipe.data_settings(one_way=False, num_edge_types=1)
    scale = own.get("scale_features", "auto") if estimator.scale_features == "auto" else estimator.scale_features
    scale = choose_scale(variants.data.get("x")) if scale == "auto" else scale
    return {"undirected": own.get("undirected", False), "scale_features": scale}


def _start(estimator: NodeEstimator, name: str, data: Callable[[], Data], *, race: bool) -> Start[Assembly]:
    """How the training of a recipe is built, over the data as it takes them."""
    pipeline = pipeline_of(estimator, name)

    def build(recipe: Recipe) -> Assembly:
        return pipeline.assemble(data(), recipe, keep_schedule=False).resolve_target_scale()

    return Start(build, _recipe_of(estimator, name, race=race))


def _race(
    estimator: NodeEstimator, starts: Mapping[str, Start[Assembly]], data: Data, folder: Path, progress: Progress
) -> Finals[Assembly]:
    """What a race leaves, or the one recipe that there is."""
    if len(starts) == 1:
        return Finals(starts, folder, None)

    def show(record: RaceRecord) -> None:
        blended = record.blend is not None and record.rows[-1]["name"] in record.costs
        _print(estimator, f"race {record.blend if blended else record.rows[-1] if record.rows else record}")

    estimator.race_ = run_race(
        starts,
        folder,
        budget=parse_budget(estimator.budget),
        on_record=show,
        on_training=progress.rung,
        on_measure=progress.measure,
        callbacks=[progress],
    )
    finals = Finals(starts, folder, estimator.race_)
    if estimator.blend:
        estimator.race_ = finals.blend(data, on_record=show, on_training=progress.rung, callbacks=[progress])
    return finals


def _train_finalist(
    estimator: NodeEstimator,
    finals: Finals[Assembly],
    name: str,
    settings: Mapping[str, Any],
    progress: Progress,
    callbacks: Sequence[Callback] = (),
) -> FitResult:
    """Train the model of a recipe as the estimator's own, over the data with these settings."""
    estimator.undirected_, estimator.scale_features_ = settings["undirected"], settings["scale_features"]
    estimator.recipe_, estimator.members_ = parse_training(name)[0], {}

    def begin(made: Assembly) -> Sequence[Callback]:
        _take_assembly(estimator, made)
        progress.stage("training", made.recipe.epochs)
        return [progress, *callbacks]

    result = finals.train(name, begin)[1]
    estimator.history_, estimator.metrics_, estimator.n_iter_ = result.history, result.metrics, len(result.history)
    if result.task is not None:
        estimator.task_ = estimator.own_task_ = result.task
    return result


def _take_assembly(estimator: NodeEstimator, made: Assembly) -> None:
    """Take the objects that are about to be trained."""
    estimator.sizes_ = made.pipeline.sizes
    estimator._take_model(made.model, made.model_arguments)
    _print(estimator, f"{estimator.sizes_}, {made.plan.num_messages:,} messages per pass, {made.plan.device}")
    if made.engine is not None:
        _print(estimator, f"engine {made.engine}")
    estimator.partition_, estimator.known_ = made.partition, KnownNodes.of(made.data, made.partition)
    wanted = estimator.validation_fraction or made.data.get("val_mask") is not None
    _warn(estimator, take_notes(made.facts if wanted else replace(made.facts, num_validation=None)), 8)


def _copy(estimator: E, seed: int) -> E:
    """An estimator of the same arguments and data for another model, which prints nothing and warns of nothing."""
    copied = clone(estimator).set_params(verbose=False, seed=seed)
    vars(copied).update({name: value for name, value in vars(estimator).items() if name.endswith("_")})
    copied.quiet_ = True
    return copied


def _warn(estimator: NodeEstimator, notes: list[Note], stacklevel: int) -> None:
    for note in () if estimator.quiet_ else notes:  # at the line that called fit
        warnings.warn(f"{note.what}; {note.argument}", NoteWarning, stacklevel=stacklevel)


def _print(estimator: NodeEstimator, text: str) -> None:
    if estimator.verbose:
        print(f"{type(estimator).__name__}: {text}")
