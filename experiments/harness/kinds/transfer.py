"""Transfer: a trained model on another graph of the same dataset, such as one that is many times longer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from experiments.harness.kinds.kind import Metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch_geometric.data import Data

    from gpnn.build import Built
    from gpnn.config import Config
    from gpnn.train import FitResult


def transfer_metrics(built: Built, result: FitResult, options: Mapping[str, Any]) -> Metrics:
    """The metrics of a trained model on a new graph, over all its labelled nodes, as `transfer_{name}`.

    Args:
        built: the objects of the training, the model with its best weights.
        result: what it came to.
        options: of the dataset, laid over those of the training.
    """
    from gpnn.build.objects import pipeline_of
    from gpnn.train import predict_logits
    from gpnn.train.evaluate import score
    from gpnn.train.objective import Examples

    config = built.config
    config = replace(config, data=replace(config.data, options={**config.data.options, **options}))
    data, task = _graph(config), result.task
    assert task is not None
    plan = pipeline_of(config).lower_again(data, None)
    examples = Examples.from_data(data, plan.device)
    outputs = predict_logits(built.model, examples.x, plan)
    found = score(outputs, task, examples, "test")
    return {f"transfer_{name.removeprefix('test_')}": value for name, value in found.items()}


_graphs: dict[str, Data] = {}  # by their settings: all cells of a column share one, whose distances take seconds


def _graph(config: Config) -> Data:
    """The dataset, all of whose labelled nodes test."""
    from gpnn.build.objects import build_data

    settings = repr(config.data)
    if settings not in _graphs:
        data = build_data(config)
        data.test_mask = torch.ones(data.num_nodes, dtype=torch.bool)
        _graphs[settings] = data
    return _graphs[settings]
