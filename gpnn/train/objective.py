"""Objective: the loss of one epoch, from the logits of its passes; Examples: the nodes and targets it is taken over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpnn.data.splits import split_mask
from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.graph import digest_edges
from gpnn.graph.convert import read_edges
from gpnn.train.loss import Weighing, full_precision
from gpnn.train.recipe import Recipe
from gpnn.train.task import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan


@dataclass(frozen=True, eq=False)
class Objective:
    """The supervised loss averaged over the passes, plus λ times their disagreement, λ ramped up.

    Attributes:
        task: what is learnt.
        examples: targets and nodes.
        recipe: class weights, smoothing, λ, temperature, ….
        class_weight: `[C]` or None.
        consistency_nodes: nodes that the disagreement is taken over, or None: all.
        group: the processes among which the nodes are shared.
        weight: what the supervised loss is divided by: :meth:`gpnn.train.task.Task.total_weight`.
    """

    task: Task
    examples: Examples
    recipe: Recipe
    class_weight: Tensor | None
    consistency_nodes: Tensor | None
    group: ProcessGroup = SINGLE
    weight: Tensor | None = None

    @classmethod
    def of(cls, task: Task, examples: Examples, recipe: Recipe, group: ProcessGroup = SINGLE) -> Objective:
        """The objective of a recipe on a task: this process's share, which sum to the whole.

        Raises:
            ValueError: when the class weights do not fit the classes.
        """
        target = examples.target("train")
        class_weight = task.class_weight(recipe.class_weight, target, group)
        weight = task.total_weight(target, class_weight, group, examples.train_weight())
        return cls(task, examples, recipe, class_weight, _consistency_nodes(examples, recipe), group, weight)

    @property
    def rows(self) -> Tensor | None:
        """The nodes whose logits the loss takes, `[n]`; None: all."""
        return None if self.recipe.consistency else self.examples.nodes["train"]

    def share(self, logits: Tensor, places: Tensor) -> Tensor:
        """The share of the loss that some of `rows` have, by their places in it; the shares of all make up the loss."""
        target = self.examples.y[self.examples.nodes["train"][places]]
        return (
            self.task.loss(full_precision(logits), target, **self._weighing(self._total, places)) / self.recipe.passes
        )

    def _weighing(self, total: Tensor | None, places: Tensor | None = None) -> Weighing:
        """How the training targets count, or those at some places among them."""
        weight, smoothing = self.examples.train_weight(places), self.recipe.label_smoothing
        return {"class_weight": self.class_weight, "label_smoothing": smoothing, "weight": weight, "total": total}

    @cached_property
    def _total(self) -> Tensor:
        """What shares are divided by, float64."""
        if self.weight is not None:
            return self.weight
        return self.task.own_weight(self.examples.target("train"), self.class_weight, self.examples.train_weight())

    def loss(self, logits: Sequence[Tensor], epoch: int) -> Tensor:
        """The loss of epoch `epoch` (from 1), given each pass's logits of `rows`, `[n, C]`."""
        recipe, nodes, target = self.recipe, self.examples.nodes["train"], self.examples.target("train")
        shown = [each if self.rows is not None else each[nodes] for each in logits]
        weighing = self._weighing(self.weight)
        supervised = [self.task.loss(each, target, **weighing) for each in shown]
        loss = torch.stack(supervised).mean()
        if recipe.consistency:
            loss = loss + recipe.consistency * self._ramp(epoch) * self._disagreement(logits)
        return loss

    def _ramp(self, epoch: int) -> float:
        return min(1.0, epoch / self.recipe.consistency_warmup) if self.recipe.consistency_warmup else 1.0

    def _disagreement(self, logits: Sequence[Tensor]) -> Tensor:
        if self.consistency_nodes is not None:
            logits = [each[self.consistency_nodes] for each in logits]
        return self.task.disagreement(logits, self.recipe, self.group)


def _consistency_nodes(examples: Examples, recipe: Recipe) -> Tensor | None:
    if not recipe.consistency or recipe.consistency_on == "all":
        return None
    outside = torch.ones(examples.y.shape[0], dtype=torch.bool, device=examples.y.device)
    outside[examples.nodes["train"]] = False
    return outside.nonzero().flatten()


SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Examples:
    """Features, targets and the labelled nodes of each split.

    Attributes:
        x: features `[N, F]`, dense or sparse CSR, or None.
        y: targets as :func:`gpnn.data.labels.check_labels` gives them.
        nodes: the ids of the labelled nodes of "train", "val" and "test", each maybe empty.
        weight: of each node in the training loss, `[N]`; None: all count alike.
    """

    x: Tensor | None
    y: Tensor
    nodes: dict[str, Tensor]
    weight: Tensor | None = None

    @classmethod
    def from_data(
        cls, data: Data, device: torch.device | str = "cpu", *, features: torch.device | str | None = None
    ) -> Examples:
        """The examples of a checked `Data`; a mask that is missing is empty.

        Args:
            data: features, labels and masks.
            device: where they are used.
            features: where features lie, or None: on `device`.

        Raises:
            ValueError: when there are no labels.
        """
        y = data.get("y")
        if y is None:
            raise ValueError("`data` must have labels `y` to learn from. Got none.")
        x, weight = data.get("x"), data.get("sample_weight")
        nodes = {split: split_mask(data, split).nonzero().flatten().to(device) for split in SPLITS}
        weight = None if weight is None else weight.to(device)
        return cls(None if x is None else x.to(features or device), y.to(device), nodes, weight)

    def target(self, split: str) -> Tensor:
        """The targets of a split's nodes, `[M]` or `[M, C]`."""
        return self.y[self.nodes[split]]

    def train_weight(self, places: Tensor | None = None) -> Tensor | None:
        """The weights of the training nodes, or of those at some places among them, `[M]`; None: all count alike."""
        nodes = self.nodes["train"]
        return None if self.weight is None else self.weight[nodes if places is None else nodes[places]]


def check_plan(data: Data, plan: Plan | None) -> None:
    """Raise ValueError where a plan has other rows than `data`, or was lowered from other edges.

    Nodes without edges, as a process of several has them, are compared by their number alone.
    """
    if plan is None:  # a model of its own that needs none
        return
    labels = data.get("y")
    if labels is not None and len(labels) != plan.num_nodes:
        raise ValueError(f"The plan must have the {len(labels)} nodes of `data`. Got one of {plan.num_nodes}.")
    graph = data.get("graph")
    if (data.get("edge_index") is None and graph is None) or plan.edge_digest is None:
        return
    digest = digest_edges(*read_edges(data)) if graph is None else graph.digest()  # of rows: known, or one pass
    if digest.edges != plan.edge_digest:
        raise ValueError(
            f"The plan must be lowered from the edges of `data`. Got that of another graph of {plan.num_nodes} nodes."
        )
