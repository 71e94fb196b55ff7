"""A finished run's objects: whether they are still those of the training, and the states that they end in."""

from __future__ import annotations

import json

import torch
from torch import Tensor

from gpnn.build.objects import Built
from gpnn.build.predict import Trained
from gpnn.storage.read import shorten


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
