"""A fitted estimator in a folder: weights as safetensors, nodes and their subgraphs as Parquet, the rest as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gpnn.check import check_choice
from gpnn.data.features import DIRECTIONS, TYPED
from gpnn.data.files import sha256_of
from gpnn.data.tables.binary import read_parquet_columns
from gpnn.data.tables.vocabulary import Vocabulary
from gpnn.partition import Partition
from gpnn.pipeline import Sizes
from gpnn.recipes import DEFAULT, find_recipe, parse_training
from gpnn.run.checkpoint import LEAST_BOUND, restore_model
from gpnn.run.folder import RunFolder
from gpnn.run.known_nodes import KnownNodes, RowDigests
from gpnn.run.predictions import write_predictions
from gpnn.storage.atomic import make_folder, write_json
from gpnn.storage.read import read_json, shorten
from gpnn.train.blend import Blend
from gpnn.train.task import parse_task

if TYPE_CHECKING:
    from gpnn.estimator.node_estimator import NodeEstimator

NODES = "nodes.parquet"

E = TypeVar("E", bound="NodeEstimator")


def save_estimator(estimator: NodeEstimator, folder: Path) -> None:
    """Write a fitted estimator, and those that predict with it in folders of their own; nothing is pickled.

    Raises:
        ValueError: when it has a transformer of scikit-learn, which only pickle could keep.
    """
    if hasattr(estimator, "columns_"):
        raise ValueError("`save` pickles nothing, and so keeps no transformer of scikit-learn. Got `columns`.")
    run = RunFolder(folder)
    make_folder(run.path)
    for name, (_, member) in estimator.members_.items():
        member.save(run.members / name)
    run.write_model(estimator.model_.state_dict(), estimator.model_arguments_)
    write_predictions([estimator.known_.to_table()], run.path / NODES)
    # what a kill leaves of two estimators is not an estimator
    whole = {"model_sha256": sha256_of(run.model), "nodes_sha256": sha256_of(run.path / NODES)}
    parameters = {"parameters": estimator.get_params()}
    write_json(run.path / f"{estimator.kind}.json", {**parameters, **_describe(estimator, run), **whole})


def _describe(estimator: NodeEstimator, run: RunFolder) -> dict[str, Any]:
    """What an estimator has learnt beside weights and nodes, as JSON holds it."""
    digests = estimator.known_.digests
    learned = {
        "sizes_": asdict(estimator.sizes_),
        "scale_features_": estimator.scale_features_,
        **estimator._learned(),
        "recipe_": estimator.recipe_,
        "undirected_": estimator.undirected_,
        "vocabulary_": estimator.vocabulary_.to_mapping(),
        "rows_": None if digests is None else digests._asdict(),
        "metrics_": estimator.metrics_,
        "n_iter_": estimator.n_iter_,
    }
    return learned | ({"blend_": _describe_blend(estimator, run)} if estimator.members_ else {})


def _describe_blend(estimator: NodeEstimator, run: RunFolder) -> dict[str, Any]:
    members = estimator.members_
    weights = {estimator.recipe_: estimator.weight_, **{name: weight for name, (weight, _) in members.items()}}
    sealed = {name: sha256_of(run.members / name / f"{estimator.kind}.json") for name in members}
    return {**Blend(weights).to_mapping(), "task": estimator.own_task_.to_mapping(), "sha256": sealed}


def load_estimator(kind: type[E], folder: Path) -> E:
    """The estimator that :func:`save_estimator` wrote; nothing is unpickled.

    Raises:
        ValueError: when the folder holds none of this kind.
    """
    file = f"{kind.kind}.json"
    try:
        saved = read_json(folder / file)
        found = kind(**saved["parameters"])
        _take_described(found, saved)
        _take_members(found, folder, saved.get("blend_"))
        if saved["model_sha256"] != sha256_of(folder / "model.safetensors"):
            raise ValueError("the model of another")
        found._take_nodes(_read_nodes(folder, saved, file))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{str(folder)!r} must hold a saved {kind.kind}. Got: {str(error)[:100]}.") from None
    weights, arguments = RunFolder(folder).read_model()
    if arguments.get("out_channels") != found.task_.num_outputs:
        raise ValueError(f"{str(folder)!r} must hold a saved {kind.kind}. Got a model with other outputs.")
    found._take_model(restore_model(arguments, weights, "model.safetensors"), arguments)
    return found


def _take_described(estimator: NodeEstimator, saved: Mapping[str, Any]) -> None:
    """Take back what :func:`_describe` wrote, maybe in an older version."""
    estimator.sizes_ = Sizes(**saved["sizes_"])
    rounds = estimator.sizes_.rounds
    if not isinstance(rounds, int) or rounds > LEAST_BOUND:
        raise ValueError(f"{shorten(rounds)} rounds")
    estimator.metrics_, estimator.scale_features_ = saved["metrics_"], saved["scale_features_"]
    estimator.n_iter_ = saved["n_iter_"]
    estimator.recipe_ = saved.get("recipe_") or estimator.recipe or DEFAULT  # older versions have no race
    find_recipe(estimator.recipe_)
    estimator.undirected_ = saved.get("undirected_", False)
    check_choice("undirected_", estimator.undirected_, (False, True, TYPED, DIRECTIONS))
    words = saved.get("vocabulary_")  # older versions have none
    estimator.vocabulary_ = Vocabulary() if words is None else Vocabulary.from_mapping(words)
    estimator._take_learned(saved)


def _take_members(estimator: E, folder: Path, saved: Mapping[str, Any] | None) -> None:
    """Take back the other models of a blend; there may be none."""
    estimator.members_, estimator.own_task_ = {}, estimator.task_
    if saved is None:
        return
    (_, estimator.weight_), *others = Blend.from_mapping(saved).weights.items()
    file = f"{estimator.kind}.json"
    estimator.own_task_ = parse_task(saved["task"], file)
    for name, weight in others:
        find_recipe(parse_training(name)[0])
        if saved["sha256"][name] != sha256_of(folder / "members" / name / file):
            raise ValueError("the member of another")
        estimator.members_[name] = weight, load_estimator(type(estimator), folder / "members" / name)


def _read_nodes(folder: Path, saved: Mapping[str, Any], file: str) -> KnownNodes:
    """The nodes of a saved estimator, also of older versions, which knew them by their edges."""
    if "nodes_sha256" not in saved:
        import pyarrow

        stored = folder / "partition.safetensors"
        labels = Partition.load(stored).labels.numpy() if stored.exists() else None
        rows = pyarrow.array(np.arange(0 if labels is None else len(labels)))
        return KnownNodes(rows, labels, RowDigests(saved["graph_"], ""))
    if saved["nodes_sha256"] != sha256_of(folder / NODES):
        raise ValueError("the nodes of another")
    rows = saved["rows_"]
    digests = None if rows is None else RowDigests.parse(rows, file)
    return KnownNodes.from_table(read_parquet_columns(folder / NODES), digests, NODES)
