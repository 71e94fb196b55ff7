"""What the tests of training in several processes run in each of them."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch_geometric.data import Data

import gpnn
from gpnn.distributed import NodeOrder, Ownership, ProcessGroup
from gpnn.memory.engine import GIVEN_MARGIN, choose_engine
from gpnn.nn import GPNN
from gpnn.train import Recipe, fit
from gpnn.train.task import task_of
from tests.oracle.planted import planted_graph

RECIPE: dict[str, Any] = {
    "epochs": 20,
    "learning_rate": 0.02,
    "weight_decay": 5e-4,
    "passes": 2,
    "consistency": 1.0,
    "consistency_warmup": 5,
}
MODEL: dict[str, Any] = {"input_dropout": 0.3, "state_dropout": 0.1, "dropout": 0.2, "drop_node": 0.3, "seed": 1}


def planted(
    *, typed: bool = False, multi_label: bool = False, numbers: bool = False, dtype: torch.dtype = torch.float64
) -> Data:
    """Sixty nodes in three classes that mostly know each other; words that hint at the class, or at a number."""
    data, generator = planted_graph(
        60, 180, friends=0.8, features=lambda y: torch.nn.functional.one_hot(y, 6), splits=(12, 18)
    )
    data.x = data.x.to(dtype)
    if multi_label:
        data.y = torch.nn.functional.one_hot(data.y, 3).float()
    if numbers:
        data.y = 100 * data.y + 10 * torch.rand(60, generator=generator, dtype=torch.float64)
    if typed:
        data.edge_type = torch.randint(3, (data.num_edges,), generator=generator)
    return data


def train(
    group: ProcessGroup | None, options: dict[str, Any], data_options: dict[str, Any], checkpoint: Path | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any], torch.Tensor]:
    """The history, the metrics and the embedding rows (or none) of a training, alone or with `group`."""
    settings = {**options}
    recipe = Recipe(**{**RECIPE, **settings.pop("recipe", {})})
    schedule = {"rounds": 2, "intra": 2, **settings.pop("schedule", {})}
    stop = settings.pop("stop", None)
    data = planted(**data_options)
    part = gpnn.partition_graph(data, 6, seed=3)
    made = gpnn.schedule.partitioned(data, part, **schedule)
    owner = None if group is None else Ownership(NodeOrder.of(gpnn.Graph.from_data(data), part, group.size), group)
    plan = gpnn.lower(data, made, normalization="symmetric_split", self_loops=True, shard=owner)
    if plan.nodes is not None:
        data = take(data, plan.nodes)
    arguments: dict[str, Any] = {**MODEL, "num_rounds": 2, "num_edge_types": plan.num_edge_types, **settings}
    if arguments.get("input", "features") != "features":
        arguments |= {"num_nodes": len(part.labels), "nodes": plan.nodes, "features": data.x}
    model = GPNN(6, 8, task_of(data).num_outputs, **arguments).to(data.x.dtype)
    callbacks = [] if stop is None else [Stop(stop)]
    result = fit(model, data, plan, recipe=recipe, seed=5, checkpoint=checkpoint, callbacks=callbacks)
    rows = torch.empty(0)
    if model.embedding is not None:
        rows = torch.empty(len(part.labels), 8, dtype=data.x.dtype)
        own = model.embedding.weight.detach()
        nodes = torch.arange(len(own)) if plan.nodes is None else plan.nodes
        pieces = [(nodes, own)] if group is None else zip(group.all_gather(nodes), group.all_gather(own))
        for where, values in pieces:
            rows[where] = values
    return result.history, result.metrics, rows


def train_on_another_graph(group: ProcessGroup) -> str:
    """What `fit` answers to own rows that come with the edges of another graph than the plan's."""
    data = planted()
    part = gpnn.partition_graph(data, 6, seed=3)
    owner = Ownership(NodeOrder.of(gpnn.Graph.from_data(data), part, group.size), group)
    plan = gpnn.lower(data, gpnn.schedule.partitioned(data, part), shard=owner)
    assert plan.nodes is not None
    own = take(data, plan.nodes)
    own.edge_index = (data.edge_index + torch.tensor([[0], [1]])) % len(data.y)
    try:
        fit(GPNN(6, 8, 3).double(), own, plan, recipe=Recipe(epochs=1))
    except ValueError as error:
        return str(error)
    return "trained"


def choose_among(group: ProcessGroup) -> tuple[list[str], str]:
    """The engines that a process takes in ever less memory, and the last one's refusal."""
    data = planted(dtype=torch.float32)
    part = gpnn.partition_graph(data, 6, seed=3)
    owner = Ownership(NodeOrder.of(gpnn.Graph.from_data(data), part, group.size), group)
    plan = gpnn.lower(data, gpnn.schedule.partitioned(data, part, rounds=4, intra=3), shard=owner)
    assert plan.nodes is not None
    model, x, recipe = GPNN(6, 64, 3, cell="lstm"), data.x[plan.nodes], Recipe()
    with patch("gpnn.memory.estimate.resident_bytes", lambda device: 0.0):  # a graph this small is lost in the rest
        named = [choose_engine(model, x, plan, recipe, engine=name) for name in ("fused", "streamed")]
        budgets = [(choice.estimate.peak + 1) / GIVEN_MARGIN for choice in named]
        names = [choose_engine(model, x, plan, recipe, memory=budget).name for budget in budgets]
        try:
            choose_engine(model, x, plan, recipe, memory=1e6)
        except ValueError as error:
            return names, str(error)
    return names, "chosen"


def take(data: Data, nodes: torch.Tensor) -> Data:
    """Features, labels and masks of some nodes."""
    part = copy(data)
    for name in ("x", "y", "train_mask", "val_mask", "test_mask"):
        part[name] = data[name][nodes]
    return part


class Stop:
    """Ends a training after an epoch, as Ctrl-C would."""

    def __init__(self, epoch: int) -> None:
        self.last = epoch

    def start(self, history: list[dict[str, Any]]) -> None:
        """Nothing to do yet."""

    def epoch(self, record: dict[str, Any]) -> bool:
        return record["epoch"] == self.last
