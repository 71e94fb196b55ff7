"""The blend of a run: its members, each a run of its own in the run folder, and what they predict together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpnn.build.finish import finish_run
from gpnn.build.objects import Built, build
from gpnn.build.predict import Member, Trained, read_members
from gpnn.build.unchanged import digests_of, settings_of
from gpnn.distributed import ShardedPlan, group_of
from gpnn.distributed.plan import own_names
from gpnn.run.folder import RunFolder
from gpnn.storage.atomic import finite
from gpnn.storage.read import read_json
from gpnn.train.blend import Blend, blend_predictions
from gpnn.train.evaluate import features_device, predict_logits
from gpnn.train.fit import FitResult
from gpnn.train.task import Prediction


def write_member(run: RunFolder, name: str, built: Built, result: FitResult) -> None:
    """Write a training of a race as a finished run of its own in the run's folder; collective.

    Args:
        run: the run whose predictions it shares in.
        name: of its recipe.
        built: its objects, whose model holds its weights.
        result: what it came to.
    """
    member, group = RunFolder(run.members / name), group_of(built.plan)
    if group.rank == 0 and not member.config.exists():
        began = {**read_json(run.environment), "settings": settings_of(built.config)}
        if not isinstance(built.plan, ShardedPlan):
            began |= digests_of(built)
        RunFolder.create(
            member.path, {"config.toml": built.config.to_toml(), "environment.json": json.dumps(finite(began))}
        )
        member.rewrite_history(result.history)
    group.barrier()
    finish_run(member, built, result)


def blend_run(run: RunFolder, built: Built, result: FitResult, blend: Blend) -> tuple[FitResult, Mapping[str, Any]]:
    """The result of a run with the predictions of its blend, and the blend as its model's file holds it; collective.

    Args:
        run: whose members are finished.
        built: the objects of its own model.
        result: what this alone came to.
        blend: the weights, its own first.
    """
    assert result.logits is not None
    assert result.task is not None
    own = Prediction(next(iter(blend.weights.values())), result.task, result.logits)
    found = [own, *predict_members(read_members(run, blend, result.task), built)]
    task, logits, scores = blend_predictions(found, built.data, group_of(built.plan))
    metrics = {**result.metrics, **scores, "num_members": len(found)}
    noted = blend.to_mapping() | {"task": result.task.to_mapping()}
    return replace(result, logits=logits, task=task, metrics=metrics), noted


def predict_members(members: Sequence[Member], built: Built) -> Iterator[Prediction]:
    """What the other models of a blend predict of this process's nodes; collective.

    Args:
        members: of the run.
        built: the objects of the run's own model, on the same graph.
    """
    for weight, trained, config in members:
        other = built.build_other(config) if config.data == built.config.data else build(config)
        load_weights(other, trained)
        x = other.data.get("x")
        x = None if x is None else x.to(features_device(x, other.model, other.plan))
        logits = predict_logits(other.model, x, other.plan, precision=config.train.precision)
        yield Prediction(weight, trained.own_task, logits)


def load_weights(built: Built, trained: Trained) -> None:
    """Give a model the weights of a run, whose embeddings are in the order of the user's nodes."""
    weights = dict(trained.model.state_dict())
    if built.plan.nodes is not None:
        for name in own_names(built.model):
            weights[name] = weights[name][built.plan.nodes.cpu()]
    built.model.load_state_dict(weights)
