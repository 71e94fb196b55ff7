"""plain_baselines: what simple methods reach on a graph, to stand beside the result of a training."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.data.splits import count_entries
from gpnn.engine import lower
from gpnn.graph import as_graph
from gpnn.nn.column_model import ColumnModel
from gpnn.schedule import synchronous
from gpnn.text import metric_text, metric_words
from gpnn.train.column_settings import Setting, column_arguments
from gpnn.train.column_solver import ColumnSolver
from gpnn.train.evaluate import calibrated_scores, score
from gpnn.train.metrics import merit
from gpnn.train.notes import Note
from gpnn.train.objective import Examples
from gpnn.train.recipe import Recipe
from gpnn.train.regression import Regression
from gpnn.train.task import Task, task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

WORK, LEAST_NODES = 5e8, 1000  # multiplications of a step, and training nodes that are taken whatever they take
STRENGTHS = (1.0, 0.1, 10.0, 100.0)  # of the ridge; the first where nothing validates
ABOUT = {
    "majority": "the most frequent class",
    "mean": "the mean number",
    "columns": "a linear model of the columns",
    "neighbours": "a linear model of the columns and the neighbours'",
}
KINDS = {"columns": "own", "neighbours": "unlabelled"}  # by name, the columns of a ColumnModel
RACE, LONGER = ("recipe=auto", 'recipe="auto"'), ("a longer budget=…", "a longer `budget`")  # as a command, in Python


def plain_baselines(data: Data, recipe: Recipe | None = None, *, seed: int = 0) -> dict[str, dict[str, float]]:
    """The metrics of plain methods on each split, by the name of the method.

    "majority" predicts the frequencies of the training classes ("mean" their mean number); "columns" is a logistic
    (ridge) regression on a node's own features; "neighbours" on these and their means over the neighbours, by edge type
    and direction, and the degrees. The strength of the ridge is chosen on the validation nodes. On a large graph they
    learn from as many of the training nodes as seconds allow (`WORK`).

    Args:
        data: features, labels and masks; without features there is no "columns".
        recipe: whose metric, class weights and target scale count; None is `Recipe()`.
        seed: of random projections.

    Returns:
        For each method its loss and metrics as `{split}_{name}`, and `seconds`.

    >>> from gpnn.data import load_dataset
    >>> found = plain_baselines(load_dataset("digits"))
    >>> found["majority"]["test_accuracy"] < found["columns"]["test_accuracy"] < found["neighbours"]["test_accuracy"]
    True
    """
    recipe = recipe or Recipe()
    examples, began = Examples.from_data(data), time.perf_counter()
    target = examples.target("train")
    task = task_of(data, recipe.target_scale).prepare(target)
    name = "mean" if isinstance(task, Regression) else "majority"
    found = {name: _scores(_constant(task, target).expand(len(examples.y), -1), task, examples, began)}
    began = time.perf_counter()
    model = ColumnModel(**column_arguments(data, hops=1, method="linear", labels=False))
    plan = lower(data, synchronous(data, rounds=1))
    metric = task.choose_metric(recipe.metric, target)
    few = replace(examples, nodes=examples.nodes | {"train": _few(data, examples.nodes["train"], task)})
    solver = ColumnSolver.of(model, task, few, plan, recipe, metric, seed)
    for name, kind in KINDS.items():
        if kind in model.kinds:
            found[name] = _scores(_best(solver, kind, metric), task, examples, began)
            began = time.perf_counter()
    return found


def baseline_note(
    metrics: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]], *, raced: bool = False
) -> Note | None:
    """The note that a plain method is better on the validation nodes than a training; None where none is.

    Args:
        metrics: of the training, with the name of the `metric` that selects.
        baselines: as :func:`plain_baselines` gives them.
        raced: whether the training is what a race kept, so that other families have been tried.
    """
    metric = str(metrics.get("metric"))
    found = {name: values[f"val_{metric}"] for name, values in baselines.items() if f"val_{metric}" in values}
    ours = metrics.get(f"val_{metric}")
    if ours is None or not found:
        return None
    best = max(found, key=lambda name: merit(metric, found[name]))
    if merit(metric, found[best]) <= merit(metric, ours):
        return None
    values = f"{metric_text(metric, found[best])} against {metric_text(metric, ours)}"
    what = f"{ABOUT[best]} has a better validation {metric_words(metric)} than this training: {values}"
    more = "gives all recipes more epochs" if raced else "tries other families of models"
    return Note(what, *(f"{name} {more}" for name in (LONGER if raced else RACE)))


def _few(data: Data, nodes: Tensor, task: Task) -> Tensor:
    """The training nodes that a step of a regression has time for, evenly taken."""
    degree, entries = as_graph(data).num_edges / data.num_nodes, count_entries(data.get("x")) / data.num_nodes
    row = (1 + degree) * (1 + entries)
    most = max(LEAST_NODES, int(WORK / (row * task.num_outputs)))
    return nodes[:: -(-len(nodes) // most) or 1]


def _constant(task: Task, target: Tensor) -> Tensor:
    """The outputs that the training targets alone give, `[C]`."""
    if isinstance(task, Regression):
        return torch.zeros(task.num_outputs)
    if target.dim() == 1:
        return torch.bincount(target, minlength=task.num_outputs).add(0.5).log()
    return torch.logit((target.float().sum(0) + 0.5) / (len(target) + 1))


def _best(solver: ColumnSolver, kind: str, metric: str) -> Tensor:
    """The outputs `[N, C]` of the strength that is best on the validation nodes."""
    task, examples = solver.task, solver.examples
    strengths = STRENGTHS if len(examples.nodes["val"]) else STRENGTHS[:1]
    merits, outputs = [], []
    for strength in strengths:
        solver.solve(Setting("linear", kind, strength))
        with torch.no_grad():
            outputs.append(solver.model.scores(solver.columns))
        found = score(outputs[-1], task, examples, "val", sorted({metric} - {"loss"}))
        merits.append(merit(metric, found.get(f"val_{metric}", 0.0)))
    return outputs[merits.index(max(merits))]


def _scores(outputs: Tensor, task: Task, examples: Examples, began: float) -> dict[str, float]:
    found = calibrated_scores(lambda split: outputs[examples.nodes[split]], task, examples)[1]
    return {**found, "seconds": time.perf_counter() - began}
