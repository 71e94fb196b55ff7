"""Who takes part in a race, what an epoch of each costs, and the budget that they share."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from gpnn.data.splits import GraphFacts, count_entries, split_mask
from gpnn.distributed import group_of
from gpnn.graph import as_graph
from gpnn.nn import GPNN, CellBank
from gpnn.nn.layers import SPARSE_BELOW
from gpnn.nn.sampled_rows import ENTRIES
from gpnn.recipes import ALIKE, DEFAULT, RECIPES
from gpnn.train.fit import fit
from gpnn.train.recipe import Recipe
from gpnn.train.solvers import SOLVERS, STEPS

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan


AVERAGES = ("spread", "raw", "averaged", "self_trained", "smoothed")


def choose_members(facts: GraphFacts, *, in_shards: bool = False) -> list[str]:
    """The names of the recipes that suit a graph with these facts, in the order that decides where they are equal.

    That is the order of the table; where neighbours differ, the recipes that average them come last. Without
    validation nodes it is the default alone; `in_shards` leaves out what several processes cannot train.

    >>> from dataclasses import replace
    >>> facts = GraphFacts(10, 4, 6, 3.0, 2, assortativity=0.8)
    >>> choose_members(facts)[0], choose_members(replace(facts, assortativity=0.0))[-1]
    ('spread', 'spread')
    """
    if not facts.num_validation:
        return [DEFAULT]
    names = [name for name, recipe in RECIPES.items() if recipe.suits(facts) and (recipe.in_shards or not in_shards)]
    differ = facts.assortativity is not None and facts.assortativity < ALIKE
    return sorted(names, key=lambda name: differ and name in AVERAGES)


PER_RECIPE, PER_NODE, MOST = 10.0, 0.016, 7200.0
SMALL = 1800  # nodes, beyond which each lengthens a race
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def default_budget(num_nodes: int, num_recipes: int) -> float:
    """10 seconds for each recipe, and 16 ms for each node beyond 1,800; at most two hours.

    >>> default_budget(1000, 4), default_budget(61_800, 7)
    (40.0, 1030.0)
    """
    return min(MOST, PER_RECIPE * num_recipes + PER_NODE * max(0, num_nodes - SMALL))


def parse_budget(value: Any) -> float | None:
    """Seconds of "90s", "10m", "1.5h" or a number; None for "auto".

    Raises:
        ValueError: when it is no time.

    >>> parse_budget("10m"), parse_budget(90), parse_budget("auto")
    (600.0, 90.0, None)
    """
    if value == "auto":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([smh]?)", str(value).strip())
    seconds = float(found[1]) * UNITS[found[2] or "s"] if found and not isinstance(value, bool) else 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"`budget` must be a time such as 90s, 10m or 1h, or auto. Got {value!r}.")
    return seconds


def allot(
    seconds: float, costs: Mapping[str, float], wanted: Mapping[str, int], weights: Mapping[str, float]
) -> dict[str, int]:
    """The epochs of each training when `seconds` are shared among them, at most those that it wants.

    What one does not need of its share goes to the others.

    Args:
        seconds: of all.
        costs: seconds of an epoch.
        wanted: epochs that each would take.
        weights: how large the share of each is beside the others'.

    >>> allot(10.0, {"quick": 0.1, "slow": 1.0}, {"quick": 20, "slow": 50}, {"quick": 1.0, "slow": 1.0})
    {'quick': 20, 'slow': 8}
    """
    given: dict[str, int] = {}
    order = sorted(wanted, key=lambda each: costs[each] * wanted[each] / weights[each])
    for place, name in enumerate(order):
        share = seconds * weights[name] / sum(weights[each] for each in order[place:])
        given[name] = int(min(wanted[name], share / costs[name] + 1e-9))
        seconds -= given[name] * costs[name]
    return {name: given[name] for name in wanted}


LONG = 30.0  # seconds of an epoch that is measured once: less may be kernels that are compiled, or a GPU that wakes


class Work(NamedTuple):
    """What an epoch does of each kind of work; or the seconds that a machine takes for one of each.

    Attributes:
        dense: multiplications of matrices.
        sparse: multiplications of sparse features.
        messages: entries of messages.
        states: entries of states that are updated.
        phases: of a pass, which take their time however small they are.
        passes: which do, too.
    """

    dense: float
    sparse: float
    messages: float
    states: float
    phases: float
    passes: float

    def seconds(self, kind: str) -> float:
        """Of a nominal machine of this kind, "cpu" or "cuda"."""
        return sum(map(mul, self, NOMINAL.get(kind, NOMINAL["cpu"])))


# Of a thread of a slow core, and of a GPU: benchmarks/race_epochs.py measures them.
NOMINAL = {
    "cpu": Work(dense=3.5e-11, sparse=2.3e-10, messages=1e-10, states=1e-9, phases=1.4e-4, passes=6e-4),
    "cuda": Work(dense=6e-13, sparse=4e-12, messages=1e-12, states=1e-11, phases=3.5e-4, passes=1e-3),
}
BACKWARD = 2  # passes of a training that a backward pass takes as long as
BATCH_STEP = 2.5e-3  # seconds of a mini-batch, however small
# Seconds of a solver's setting: any; per node and output; per entry or edge that it reads, and output; per dense
# column of a training node and output; and of the trees, which take a share of the settings, the same.
SOLVE, SOLVE_NODE, SOLVE_ENTRY, SOLVE_EDGE, SOLVE_DENSE = 0.03, 1e-6, 4e-8, 1.1e-7, 6e-8
TREES, TREES_DENSE = 0.25, 2.3e-7


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
    return epoch_work(model, data, plan, recipe).seconds(plan.device.type)


def epoch_work(model: nn.Module, data: Data, plan: Plan, recipe: Recipe) -> Work:
    """What an epoch over all nodes does: forward and backward passes, and those of its validation."""
    passes = (1 + BACKWARD) * recipe.passes + 1 / recipe.check_every
    dense, sparse = _feature_work(model, data.get("x"))
    cell: Any = getattr(model, "cell", None)
    num_cells = len(cell.cells) if isinstance(cell, CellBank) else 1  # each step uses one
    of_cell = 0 if cell is None else sum(each.numel() for each in cell.parameters()) / num_cells
    skipped = ("encoder.first", "embedding", "cell")
    others = sum(each.numel() for name, each in model.named_parameters() if not name.startswith(skipped))
    width, phases = _width(model), sum(phase.repeat for phases in plan.rounds for phase in phases)
    dense += float(plan.num_updates) * of_cell + plan.num_nodes * others
    of_pass = Work(dense, sparse, float(plan.num_messages) * width, float(plan.num_updates) * width, phases, 1)
    return Work(*(passes * each for each in of_pass))


def _batch_seconds(model: nn.Module, data: Data, recipe: Recipe) -> float:
    """Seconds of the steps of an epoch of mini-batches, and of its validation."""
    weights, sparse = float(sum(each.numel() for each in model.parameters())), 0.0
    first: Any = getattr(getattr(model, "encoder", None), "first", None)
    if first is not None and getattr(model, "norm", "none") == "none":  # rows of few entries stay sparse
        entries = count_entries(data.get("x")) / max(1, data.num_nodes) * ENTRIES / 2
        if entries < SPARSE_BELOW * first.weight.shape[0]:
            weights, sparse = weights - first.weight.numel(), entries * first.weight.shape[1]
    rows = recipe.batch + min(recipe.labelled, int(split_mask(data, "train").sum()))
    passes = STEPS * rows * (1 + BACKWARD) * recipe.passes + int(split_mask(data, "val").sum())
    return Work(passes * weights, passes * sparse, 0, 0, 0, 0).seconds("cpu") + STEPS * BATCH_STEP


def _solver_seconds(model: Any, data: Data) -> float:
    """Seconds of one setting of a model of columns, trees spread over all settings."""
    graph, nodes, outputs = as_graph(data), max(1, data.num_nodes), model.out_channels
    train, relations = int(split_mask(data, "train").sum()), model.num_relations
    read = min(1 + relations, train / nodes * (1 + graph.num_edges / nodes * (2 if model.directed else 1)))
    dense = float(train * model.linear.get_buffer("mean").numel() * outputs)
    trees = TREES + TREES_DENSE * dense if "trees" in model.solvers else 0.0
    entries, edges = count_entries(data.get("x")) * read, graph.num_edges * min(1, read) if model.many else 0
    ridge = SOLVE_NODE * nodes + SOLVE_ENTRY * entries + SOLVE_EDGE * edges
    return SOLVE + ridge * outputs + SOLVE_DENSE * dense + trees


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


def _feature_work(model: nn.Module, x: Tensor | None) -> tuple[float, float]:
    """Multiplications of the features with the first layer, as a dense matrix or as a sparse one."""
    first: Any = getattr(getattr(model, "encoder", None), "first", None)
    if x is None or first is None:
        return 0.0, 0.0
    entries, all_entries, width = count_entries(x), x.shape[0] * x.shape[1], first.weight.shape[1]
    return (0.0, float(entries) * width) if entries < SPARSE_BELOW * all_entries else (float(all_entries) * width, 0.0)


def _width(model: Any) -> int:
    """Columns of what propagates: states, scores or features."""
    if not isinstance(model, GPNN):
        return 8
    layers = {"after": model.head.weights[0].shape[0], "before": model.head.weights[-1].shape[1]}
    return (
        layers[model.predict] if model.encoder is None or model.predict in layers else len(model.encoder.first.weight)
    )
