"""What the graph networks share: from a schedule and a model to probabilities, by :func:`gpnn.train.fit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from gpnn.engine import Plan, lower
from gpnn.engine.device import choose_device
from gpnn.nn import GPNN
from gpnn.partition import partition_graph
from gpnn.pipeline import model_arguments, most_parts
from gpnn.schedule import Schedule, partitioned
from gpnn.train import Recipe, fit, predict_logits, probabilities

if TYPE_CHECKING:
    from torch_geometric.data import Data


def train_network(
    data: Data,
    schedule: Schedule,
    make_model: Callable[[Plan], nn.Module],
    *,
    recipe: Mapping[str, Any],
    seed: int,
    normalization: str,
    self_loops: bool = False,
    device: str = "cpu",
) -> Tensor:
    """The class probabilities of a model trained under a schedule, `[N, C]`.

    Args:
        data: features, labels and masks.
        schedule: which messages travel when.
        make_model: the model for the lowered schedule, called as `model(x, plan, key)`.
        recipe: settings of :class:`gpnn.train.Recipe`.
        seed: of the random masks.
        normalization: how messages are weighed; see :func:`gpnn.lower`.
        self_loops: every node also receives its own message.
        device: where to train: "auto", "cpu", "cuda" or "cuda:N".

    Raises:
        ValueError: when the training diverged.
    """
    where = choose_device(device)
    plan = lower(data, schedule, where, normalization, self_loops=self_loops)
    model = make_model(plan).to(where)
    problem = fit(model, data, plan, recipe=Recipe(**recipe), seed=seed).problem
    if problem is not None:
        raise ValueError(problem)
    x = data.get("x")
    logits = predict_logits(model, None if x is None else x.to(where), plan)
    return probabilities(logits).cpu()


def recurrent_network(
    data: Data, hidden_channels: int, model: Mapping[str, Any] | None, seed: int
) -> Callable[[Plan], nn.Module]:
    """A maker of the paper's model: features in (else embeddings), GRU, features beside the state at the output.

    Args:
        data: features where there are any.
        hidden_channels: width of the states.
        model: further arguments of :class:`gpnn.nn.GPNN`.
        seed: where the parameters start from.
    """

    def make(plan: Plan) -> nn.Module:
        arguments = model_arguments(data, plan, hidden_channels, dict(model or {}), seed=seed)
        return GPNN(**arguments, features=data.get("x"))

    return make


def divide(data: Data, k: int, rounds: int, *, partition: str, seed: int, options: Mapping[str, Any]) -> Schedule:
    """The partitioned schedule over `k` subgraphs, or over as many as there are training nodes to seed them.

    Args:
        data: the graph.
        k: subgraphs K.
        rounds: T.
        partition: a partitioner's name.
        seed: of the partition.
        options: further arguments of :func:`gpnn.schedule.partitioned`.
    """
    return partitioned(data, partition_graph(data, most_parts(data, k), partition, seed), rounds, **options)
