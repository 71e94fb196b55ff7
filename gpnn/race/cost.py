"""The cost of an epoch: nominal, from sizes alone, or measured."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gpnn.data.splits import count_entries, split_mask
from gpnn.distributed import group_of
from gpnn.graph import as_graph
from gpnn.nn import GPNN, CellBank
from gpnn.train.fit import fit
from gpnn.train.recipe import Recipe
from gpnn.train.solvers import SOLVERS, STEPS

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan

SPEED = {"cpu": 3e10, "cuda": 5e12}  # operations per second of a nominal machine
STEP = {"cpu": 1e-3, "cuda": 2e-4}  # seconds of one phase, however small
LONG = 5.0  # seconds of an epoch that is measured once
PASS = 6  # operations per multiplication of a training pass: forward, backward, and gates computed again
CHECK = 2  # of a validation
SPARSE = 4  # multiplications of a dense matrix that take as long as one of a sparse one
BATCH_STEP = 2e-3  # seconds of a mini-batch, however small
SOLVE, SOLVE_ENTRY, SOLVE_TREES = 0.06, 4e-8, 0.45  # seconds of a solver's setting: any, per entry and output, trees


def nominal_seconds(model: nn.Module, data: Data, plan: Plan, recipe: Recipe) -> float:
    """Seconds of an epoch on a nominal machine: what sizes alone say, so that a race is the same on every machine.

    Args:
        model: its parameters named `encoder.`, `cell.`, `head.` count as often as they are applied.
        data: features.
        plan: messages and updates of a pass.
        recipe: its passes.
    """
    if type(model) in SOLVERS:
        return _solver_seconds(model, data)
    if recipe.batch:
        return _batch_seconds(model, data, recipe)
    kind = plan.device.type
    multiplications = _feature_work(model, data.get("x")) + _state_work(model, plan)
    operations = multiplications * (PASS * recipe.passes + CHECK / recipe.check_every)
    steps = sum(phase.repeat for phases in plan.rounds for phase in phases)
    return operations / SPEED.get(kind, SPEED["cpu"]) + STEP.get(kind, STEP["cpu"]) * steps * (2 * recipe.passes + 1)


def _batch_seconds(model: nn.Module, data: Data, recipe: Recipe) -> float:
    """Seconds of the steps of an epoch of mini-batches, and of its validation: the first layer's products are dense."""
    weights = sum(each.numel() for each in model.parameters())
    rows = recipe.batch + min(recipe.labelled, int(split_mask(data, "train").sum()))
    operations = STEPS * rows * PASS * recipe.passes + CHECK * int(split_mask(data, "val").sum())
    return operations * weights / SPEED["cpu"] + STEPS * BATCH_STEP


def _solver_seconds(model: Any, data: Data) -> float:
    """Seconds of one setting of a model of columns, trees spread over all settings."""
    graph, nodes = as_graph(data), max(1, data.num_nodes)
    share, relations = int(split_mask(data, "train").sum()) / nodes, model.num_relations
    read = min(1 + relations, share * (1 + graph.num_edges / nodes * (2 if model.directed else 1)))
    trees = SOLVE_TREES if "trees" in model.solvers else 0.0
    return SOLVE + SOLVE_ENTRY * count_entries(data.get("x")) * read * model.out_channels + trees


def measured_seconds(model: nn.Module, data: Data, plan: Plan, recipe: Recipe, *, seed: int = 0) -> float:
    """Seconds of the second of two epochs, the longest over all processes; the model stays as it was; collective.

    Where the first takes more than `LONG` seconds, it is not repeated.
    """
    trial = replace(recipe, epochs=2, patience=0, check_every=1)
    began = time.perf_counter()
    history = fit(deepcopy(model), data, plan, recipe=trial, seed=seed, callbacks=[_EndIfLong()]).history
    last = history[-1]["seconds"] if history else time.perf_counter() - began
    return float(group_of(plan).all_reduce_max(torch.tensor(last, dtype=torch.float64)))


class _EndIfLong:
    """The callback that ends a measurement whose first epoch was long."""

    def start(self, history: list[dict[str, Any]]) -> None:
        """Nothing to do yet."""

    def epoch(self, record: dict[str, Any]) -> bool:
        return bool(record["seconds"] > LONG)


def _feature_work(model: nn.Module, x: Tensor | None) -> float:
    """Multiplications of the features with the first layer."""
    first: Any = getattr(getattr(model, "encoder", None), "first", None)
    if x is None or first is None:
        return 0.0
    entries = min(x.shape[0] * x.shape[1], SPARSE * count_entries(x))
    return float(entries) * first.weight.shape[1]


def _state_work(model: nn.Module, plan: Plan) -> float:
    """Multiplications of states: a cell's at every update, other layers' once per node; and sums of messages."""
    cell: Any = getattr(model, "cell", None)
    num_cells = len(cell.cells) if isinstance(cell, CellBank) else 1  # each step uses one
    of_cell = 0 if cell is None else sum(each.numel() for each in cell.parameters()) / num_cells
    skipped = ("encoder.first", "embedding", "cell")
    others = sum(each.numel() for name, each in model.named_parameters() if not name.startswith(skipped))
    width = _width(model)
    return float(plan.num_updates) * of_cell + plan.num_nodes * others + float(plan.num_messages) * width


def _width(model: Any) -> int:
    """Columns of what propagates: states, scores or features."""
    if not isinstance(model, GPNN):
        return 8
    layers = {"after": model.head.weights[0].shape[0], "before": model.head.weights[-1].shape[1]}
    return (
        layers[model.predict] if model.encoder is None or model.predict in layers else len(model.encoder.first.weight)
    )
