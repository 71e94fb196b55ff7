"""A finished run: what its folder says, whether its objects are those of the training, the states they end in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpnn.build.objects import Built
from gpnn.build.predict import Trained
from gpnn.config import Config
from gpnn.storage.read import read_json, read_text, shorten
from gpnn.train.divergence import training_notes
from gpnn.train.known_nodes import RowDigests
from gpnn.train.notes import Note
from gpnn.train.run_folder import RunFolder


def run_facts(run: RunFolder, config: Config) -> dict[str, Any]:
    """What a record says of a run besides its data, by the names of the record's attributes."""
    return {
        "name": Path(config.data.name).name,
        "run": run.path.resolve().name,
        "metrics": run.read_metrics(),
        "history": run.read_history(),
        "config": read_text(run.config),
        "environment": read_json(run.environment),
        "seed": config.seed,
    }


def history_notes(run: RunFolder, built: Built) -> list[Note]:
    """The notes that follow from a run's history."""
    data = built.data
    return training_notes(run.read_history(), data.num_classes, multi_label=data.y.dim() == 2)


def describe_model(built: Built, digests: RowDigests | None) -> dict[str, Any]:
    """What :func:`gpnn.build.predict.read_trained` reads beside the weights of a run's model, as JSON holds it.

    Args:
        built: the objects of the run.
        digests: of its graph where nodes have no ids.
    """
    data, words = built.data, built.data.get("vocabulary")
    return {
        "model": built.model_arguments,
        "classes": data.get("class_names"),
        "multi_label": data.y.dim() == 2,
        "vocabulary": None if words is None else words.to_mapping(),
        "rows": None if digests is None else digests._asdict(),
    }


def check_same(trained: Trained, built: Built) -> None:
    """Refuse data or settings that are not those of the training."""
    now = json.loads(json.dumps(built.model_arguments))
    for name in sorted({*now, *trained.arguments}):
        then = trained.arguments.get(name)
        if now.get(name) != then:
            raise ValueError(
                "A report needs the data and the config.toml that the run was trained with. "
                f"Its model's {name} was {shorten(then)}, and would be {shorten(now.get(name))} now."
            )


def final_states(built: Built, x: Tensor | None, logits: Tensor) -> tuple[Tensor, str]:
    """What the propagation ended in: the states, or the scores where the model predicts before it propagates."""
    if built.model.predict == "before":
        return logits, "scores after propagation"
    training = built.model.training
    built.model.eval()
    try:
        with torch.no_grad():
            return built.model.states(x, built.plan), "final states"
    finally:
        built.model.train(training)
