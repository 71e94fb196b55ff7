"""learn_partition: a partition trained together with the classifier that will run on it, then hardened."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from gpnn.check import check_choice, check_count, check_range
from gpnn.data.features import scale_rows
from gpnn.graph import as_graph
from gpnn.nn import GPNN, MaskKey
from gpnn.nn.soft_schedule import ASSIGNMENTS, SoftSchedule, encode_structure, harden
from gpnn.partition import Partition
from gpnn.train.evaluate import call_model
from gpnn.train.loss import full_precision
from gpnn.train.objective import Examples, Objective
from gpnn.train.optimizer import clip_gradients, make_optimizer
from gpnn.train.recipe import Recipe, resolve_recipe
from gpnn.train.task import task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan


@dataclass(frozen=True)
class PartitionRecipe:
    """How a partition is learned; it checks itself when it is made.

    Attributes:
        assignment: where the probabilities come from: "network" (over features and structure) or "free" (parameters).
        loss: of the partition alone: "mincut" or "dmon".
        cut: weight of its cut term.
        balance: weight of its balance term.
        classify: weight of the classifier's loss; 0 leaves the classifier out.
        epochs: gradient steps.
        learning_rate: of the scores.
        temperature: that the softmax of the scores ends at; it starts at 1 and falls geometrically.

    Raises:
        ValueError: when a setting is out of range.

    >>> PartitionRecipe(loss="dmon").temperature
    0.1
    """

    assignment: str = "network"
    loss: str = "mincut"
    cut: float = 1.0
    balance: float = 1.0
    classify: float = 1.0
    epochs: int = 200
    learning_rate: float = 0.01
    temperature: float = 0.1

    def __post_init__(self) -> None:
        check_choice("assignment", self.assignment, ASSIGNMENTS)
        check_choice("loss", self.loss, CUT_LOSSES)
        for name in ("cut", "balance", "classify"):
            check_range(name, getattr(self, name), 0)
        check_count("epochs", self.epochs)
        for name in ("learning_rate", "temperature"):
            check_range(name, getattr(self, name), 1e-6, 1.0 if name == "temperature" else math.inf)

    def temperature_at(self, epoch: int) -> float:
        """The temperature of an epoch, from 1."""
        return self.temperature ** ((epoch - 1) / max(1, self.epochs - 1))


class Classifier(NamedTuple):
    """What learns beside a partition: a model on its device, and a plan of its graph, whose schedule is not used."""

    model: GPNN
    plan: Plan


def learn_partition(
    data: Data,
    k: int,
    schedule: SoftSchedule,
    *,
    classifier: Classifier | None = None,
    recipe: PartitionRecipe | None = None,
    seed: int = 0,
) -> Partition:
    """The partition into k subgraphs that the classifier and the cut agree on.

    The loss is that of the classifier under the soft schedule on the training nodes, plus a cut and a balance term. The
    temperature of the probabilities falls until they are almost 0 and 1; each node then gets its most probable
    subgraph. The classifier is trained on the way, and can be thrown away.

    Args:
        data: features, labels and masks; labels are needed with a classifier only.
        k: number of subgraphs K.
        schedule: of the graph of `data`, on the device that all is computed on.
        classifier: None: cut and balance alone decide.
        recipe: how it is learned; None is `PartitionRecipe()`.
        seed: of the scores and of the classifier's random masks.

    Raises:
        ValueError: when the loss is not finite.
    """
    recipe = recipe or PartitionRecipe()
    if k == 1:
        return Partition(torch.zeros(data.num_nodes, dtype=torch.int64), 1)
    device, generator = schedule.weight.device, torch.Generator().manual_seed(seed)
    x = None if data.get("x") is None else scale_rows(data.x).to(device)
    structure = encode_structure(as_graph(data), generator)
    num_features = 0 if x is None else x.shape[1]
    assignment = ASSIGNMENTS[recipe.assignment](structure, num_features, k, generator).to(device)
    trained = None if classifier is None or not recipe.classify else _Trained.of(classifier, data, schedule, seed)
    return harden(_train(assignment, x, schedule, trained, recipe))


def _train(
    assignment: nn.Module, x: Tensor | None, schedule: SoftSchedule, trained: _Trained | None, recipe: PartitionRecipe
) -> Tensor:
    """The probabilities after the last step, `[N, K]`."""
    edges, optimizer = CutEdges.of(schedule), torch.optim.Adam(assignment.parameters(), lr=recipe.learning_rate)
    for epoch in range(1, recipe.epochs + 1):
        optimizer.zero_grad(set_to_none=True)
        probabilities = (assignment(x) / recipe.temperature_at(epoch)).softmax(1)
        inside = schedule.inside(probabilities)
        cut, uneven = CUT_LOSSES[recipe.loss](edges, inside, probabilities)
        loss = recipe.cut * cut + recipe.balance * uneven
        if trained is not None:
            loss = loss + recipe.classify * trained.loss(inside, epoch)
        _check_finite(float(loss.detach()), epoch)
        loss.backward()
        optimizer.step()
        if trained is not None:
            trained.step()
    return probabilities


def _check_finite(loss: float, epoch: int) -> None:
    if not math.isfinite(loss):
        raise ValueError(
            f"The loss of a learned partition must stay finite; try a smaller `learning_rate`. "
            f"Got {loss} in epoch {epoch}."
        )


@dataclass(frozen=True, eq=False)
class _Trained:
    """A classifier that learns beside the partition."""

    classifier: Classifier
    schedule: SoftSchedule
    objective: Objective
    optimizer: torch.optim.Optimizer
    recipe: Recipe
    seed: int

    @classmethod
    def of(cls, classifier: Classifier, data: Data, schedule: SoftSchedule, seed: int) -> _Trained:
        recipe = resolve_recipe(Recipe(weight_decay="auto"), data)
        examples = Examples.from_data(data, classifier.plan.device)
        task = task_of(data).prepare(examples.target("train"))
        optimizer = make_optimizer(classifier.model, weight_decay=float(recipe.weight_decay))
        return cls(classifier, schedule, Objective.of(task, examples, recipe), optimizer, recipe, seed)

    def loss(self, inside: Tensor, epoch: int) -> Tensor:
        """The loss of the model under the soft schedule, whose edges are inside with these probabilities, `[E]`."""
        model, plan = self.classifier
        model.train()
        model.runner = self.schedule.bind(inside)
        self.optimizer.zero_grad(set_to_none=True)
        objective = self.objective
        logits = call_model(model, objective.examples.x, plan, MaskKey(self.seed, epoch), objective.rows)
        return objective.loss([full_precision(logits)], epoch)

    def step(self) -> None:
        clip_gradients(self.classifier.model, self.recipe.clip)
        self.optimizer.step()


class CutEdges(NamedTuple):
    """The edges that can be cut: those between two nodes; direction, type and weight play no role.

    Attributes:
        between: which edges join two nodes, `[E]`.
        degree: half of the edge ends at each node, `[N]`; they sum to the number of edges.
    """

    between: Tensor
    degree: Tensor

    @classmethod
    def of(cls, schedule: SoftSchedule) -> CutEdges:
        """The edges of a soft schedule."""
        between = schedule.sender != schedule.receiver
        ends = torch.cat([schedule.sender[between], schedule.receiver[between]])
        return cls(between, torch.bincount(ends, minlength=schedule.num_nodes) / 2)


def mincut(edges: CutEdges, inside: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    r"""The relaxed normalised cut, and how far the subgraphs are from disjoint and equal (Bianchi et al. 2020).

    .. math::
        1 - \frac{\mathrm{tr}(S^T A S)}{\mathrm{tr}(S^T D S)}, \qquad
        \left\| \frac{S^T S}{\|S^T S\|_F} - \frac{I_K}{\sqrt K} \right\|_F

    Args:
        edges: those that can be cut.
        inside: the probability of each edge to be inside, `[E]`.
        probabilities: S, `[N, K]`.
    """
    volume = edges.degree.to(probabilities) @ probabilities.square().sum(1)
    cut = 1 - inside[edges.between].sum() / volume.clamp(min=1)
    overlap = probabilities.T @ probabilities
    even = torch.eye(len(overlap), dtype=overlap.dtype, device=overlap.device) / len(overlap) ** 0.5
    return cut, (overlap / overlap.norm() - even).norm()


def dmon(edges: CutEdges, inside: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    r"""The negative modularity, and how uneven the sizes are (Tsitsulin et al. 2023); arguments as :func:`mincut`.

    .. math::
        -\frac{1}{m} \mathrm{tr}(S^T (A - d d^T / m) S), \qquad
        \frac{\sqrt K}{N} \Big\| \sum_i S_i \Big\| - 1
    """
    num_edges = edges.degree.sum().clamp(min=1)
    expected = (edges.degree.to(probabilities) @ probabilities).square().sum() / num_edges
    sizes = probabilities.sum(0)
    uneven = probabilities.shape[1] ** 0.5 / len(probabilities) * sizes.norm() - 1
    return (expected - inside[edges.between].sum()) / num_edges, uneven


CUT_LOSSES: dict[str, Callable[[CutEdges, Tensor, Tensor], tuple[Tensor, Tensor]]] = {"mincut": mincut, "dmon": dmon}
