"""What the graph networks share: from the arguments of a pipeline to probabilities, by :func:`gpnn.train.fit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from gpnn.pipeline import Pipeline
from gpnn.train import Recipe, fit, probabilities

if TYPE_CHECKING:
    from torch_geometric.data import Data


def train_network(
    data: Data, pipeline: Pipeline, *, recipe: Mapping[str, Any], model: nn.Module | None = None
) -> Tensor:
    """The class probabilities of a model trained under a schedule, `[N, C]`.

    Args:
        data: features, labels and masks.
        pipeline: partition, into at most as many subgraphs as there are training nodes to seed them; schedule; model.
        recipe: settings of :class:`gpnn.train.Recipe`.
        model: called as `model(x, plan, key)`; None: the pipeline's own.

    Raises:
        ValueError: when the training diverged.
    """
    plan = pipeline.resolve_structure(data).lower_again(data, None)
    model = pipeline.make_model(data, plan)[0] if model is None else model.to(plan.device)
    result = fit(model, data, plan, recipe=Recipe(**recipe), seed=pipeline.seed)
    if result.problem is not None:
        raise ValueError(result.problem)
    assert result.logits is not None
    return probabilities(result.logits).cpu()
