"""Task: what is predicted of a node, and how a model's outputs become a loss, predictions and metrics.

Training, evaluation, predictions and reports go by the task; :func:`task_of` finds it from the labels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, Unpack

import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.data.labels import are_numbers, join_labels
from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.storage.read import shorten
from gpnn.train.loss import (
    Weighing,
    balanced_class_weight,
    choose_offsets,
    choose_temperature,
    consistency_loss,
    supervised_loss,
    target_weight,
    yes_or_no,
)
from gpnn.train.metrics import CLASS_METRICS, choose_metric

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.train.recipe import Recipe

Scale: TypeAlias = Literal["linear", "log"]
MOST_OFFSETS = 1000  # classes whose shares are calibrated: a square matrix of them is solved
LEAST_PROBABILITY = 1e-12  # of a blend's, so that its logarithm is finite
SHOWN = {  # the metrics that a result shows, beside the one that selects
    "classification": ("accuracy", "recall"),
    "multi_label": ("macro_f1", "roc_auc", "average_precision"),
    "regression": ("r2", "mae", "rmse", "spearman", "coverage"),
}


class Prediction(NamedTuple):
    """What one of several models gives: its weight, its task and its outputs `[M, num_outputs]`."""

    weight: float
    task: Task
    outputs: Tensor


class Task(ABC):
    """What is predicted of a node.

    Attributes:
        name: "classification", "multi_label" or "regression".
        metrics: the names of the metrics that belong to it.
        watched: the one that every validation computes.
        num_outputs: columns of the model's output.
        chance: the loss of a model that has learnt nothing.
    """

    name: str
    metrics: tuple[str, ...]
    watched: str

    @property
    @abstractmethod
    def num_outputs(self) -> int: ...

    @property
    @abstractmethod
    def chance(self) -> float: ...

    @abstractmethod
    def check(self, names: Sequence[Any] | None) -> None:
        """Raise ValueError where nothing can be learnt; `names` are those of the classes, where they are known."""

    def scales(self, target: Tensor, group: ProcessGroup = SINGLE) -> tuple[Scale, ...]:
        """The scales of the training targets that are worth a trial."""
        return ("linear",)

    def prepare(self, target: Tensor, group: ProcessGroup = SINGLE) -> Task:
        """The task with the statistics of the training targets of all processes."""
        return self

    def calibrate(self, outputs: Tensor, target: Tensor, group: ProcessGroup = SINGLE, *, shares: bool = False) -> Task:
        """The task calibrated by the outputs of the trained model for the validation nodes; collective.

        Args:
            outputs: of the validation nodes, `[n, num_outputs]`.
            target: of them.
            group: the processes whose nodes count.
            shares: whether the shares of classes are calibrated, too.
        """
        return self

    def uncalibrated(self) -> Task | None:
        """The task before its probabilities were calibrated; None where they were not."""
        return None

    def scale_variance(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The outputs of nodes with these targets, their variances scaled to their errors; classes have none."""
        return outputs

    def joins(self, blend: Task) -> bool:
        """Whether :meth:`combine` of the task of a blend takes predictions of this task."""
        return self.name == blend.name

    def blended(self, others: Iterable[Task]) -> Task:
        """The task, not calibrated, in which predictions of this one and of others are averaged."""
        return self.uncalibrated() or self

    @abstractmethod
    def combine(self, predictions: Sequence[Prediction]) -> Tensor:
        """The outputs of which this task, not calibrated, makes the weighted mean of several predictions."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """What is predicted, in a few words."""

    @abstractmethod
    def choose_metric(self, name: str, target: Tensor, group: ProcessGroup = SINGLE) -> str:
        """The metric that selects: the given one, or where it is "auto" one that suits the training targets."""

    @abstractmethod
    def class_weight(self, weight: Any, target: Tensor, group: ProcessGroup) -> Tensor | None:
        """The weights of the classes `[C]` that a recipe's `class_weight` means, or None."""

    @abstractmethod
    def own_weight(self, target: Tensor, class_weight: Tensor | None, weight: Tensor | None = None) -> Tensor:
        """What a sum over these targets is divided by to be a mean, float64."""

    def total_weight(
        self, target: Tensor, class_weight: Tensor | None, group: ProcessGroup, weight: Tensor | None = None
    ) -> Tensor | None:
        """The same over the targets of all processes; None where one has them all, whose mean torch takes itself."""
        return None if group.size == 1 else group.all_reduce(self.own_weight(target, class_weight, weight))

    @abstractmethod
    def loss(self, outputs: Tensor, target: Tensor, **weighing: Unpack[Weighing]) -> Tensor:
        """The mean error of outputs `[M, num_outputs]`, by the targets' weights; with `total` this process's share."""

    def blend_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """What the weights of a blend make small: the mean error of its predictions."""
        return self.loss(outputs, target)

    @abstractmethod
    def disagreement(self, outputs: Sequence[Tensor], recipe: Recipe, group: ProcessGroup = SINGLE) -> Tensor:
        """How far several passes are from their common prediction; this process's share."""

    @abstractmethod
    def predict(self, outputs: Tensor) -> Tensor:
        """The predictions `[M, columns]` that metrics and tables take."""

    @abstractmethod
    def columns(
        self, predictions: Tensor, classes: Sequence[Any] | None, *, each: bool = True
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Columns of the table of predictions, `[N]` each: the prediction itself, and those that come last.

        Args:
            predictions: of nodes, on any device.
            classes: their names; None: they are numbered.
            each: whether there are columns that come last.
        """

    @abstractmethod
    def to_mapping(self) -> dict[str, Any]:
        """The task as JSON holds it."""


@dataclass(frozen=True)
class Classification(Task):
    """One of C classes per node, or any number of C labels.

    Attributes:
        num_classes: C.
        multi_label: whether a node may have several.
        temperature: T, by which outputs are divided before they become probabilities.
        offsets: what is added to these for each class; none where nothing is.
    """

    num_classes: int
    multi_label: bool = False
    temperature: float = 1.0
    offsets: tuple[float, ...] = ()

    metrics = (*CLASS_METRICS, "calibration_error")
    watched = "accuracy"

    @property
    def name(self) -> str:  # type: ignore[override]
        return "multi_label" if self.multi_label else "classification"

    @property
    def num_outputs(self) -> int:
        return self.num_classes

    @property
    def summary(self) -> str:
        return f"{self.num_classes} {'labels' if self.multi_label else 'classes'}"

    @property
    def chance(self) -> float:
        return math.log(2 if self.multi_label else max(2, self.num_classes))

    def check(self, names: Sequence[Any] | None) -> None:
        if self.num_classes < 2 and not self.multi_label:
            only = shorten((names or ["one"])[0])
            raise ValueError(f"A training needs at least two classes. Got {only} alone.")

    def choose_metric(self, name: str, target: Tensor, group: ProcessGroup = SINGLE) -> str:
        return choose_metric(name, target, group)

    def class_weight(self, weight: Any, target: Tensor, group: ProcessGroup) -> Tensor | None:
        if isinstance(weight, str):
            return None if weight == "none" else balanced_class_weight(target, self.num_classes, group)
        if len(weight) != self.num_classes:
            raise ValueError(
                f"`class_weight` must have one weight for each of the {self.num_classes} classes. Got {len(weight)}."
            )
        return torch.tensor(weight, device=target.device)

    def own_weight(self, target: Tensor, class_weight: Tensor | None, weight: Tensor | None = None) -> Tensor:
        return target_weight(target, self.num_classes, class_weight, weight)

    def loss(self, outputs: Tensor, target: Tensor, **weighing: Unpack[Weighing]) -> Tensor:
        return supervised_loss(outputs, target, **weighing)

    def disagreement(self, outputs: Sequence[Tensor], recipe: Recipe, group: ProcessGroup = SINGLE) -> Tensor:
        if self.multi_label:
            outputs = [yes_or_no(each) for each in outputs]
        sharpness, threshold = recipe.temperature, recipe.consistency_threshold
        return consistency_loss(outputs, temperature=sharpness, threshold=threshold, group=group)

    def calibrate(
        self, outputs: Tensor, target: Tensor, group: ProcessGroup = SINGLE, *, shares: bool = False
    ) -> Classification:
        """With the temperature that suits the validation nodes and, for shares, the offsets that do.

        See :func:`gpnn.train.loss.choose_temperature` and :func:`gpnn.train.loss.choose_offsets`. Several labels of a
        node have no offsets.
        """
        outputs, target = torch.cat(group.all_gather(outputs)), torch.cat(group.all_gather(target))
        if self.multi_label:
            outputs, target = yes_or_no(outputs).flatten(0, 1), (target < 0.5).long().flatten()
        temperature = choose_temperature(outputs, target)
        moved = shares and not self.multi_label and self.num_classes <= MOST_OFFSETS
        offsets = choose_offsets(outputs / temperature, target) if moved else ()
        return replace(self, temperature=temperature, offsets=offsets)

    def uncalibrated(self) -> Classification | None:
        return None if self.temperature == 1.0 and not self.offsets else replace(self, temperature=1.0, offsets=())

    def combine(self, predictions: Sequence[Prediction]) -> Tensor:
        """The logits of the weighted mean of the probabilities."""
        shares = [weight * task.predict(outputs.double()) for weight, task, outputs in predictions]
        mean = torch.stack(shares).sum(0).clamp(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        logits = torch.logit(mean) if self.multi_label else mean.log()
        return logits.to(predictions[0].outputs.dtype)

    def predict(self, outputs: Tensor) -> Tensor:
        """The probability of each class, `[M, C]`."""
        outputs = outputs if self.temperature == 1.0 else outputs / self.temperature
        outputs = outputs + outputs.new_tensor(self.offsets) if self.offsets else outputs
        return torch.sigmoid(outputs) if self.multi_label else torch.softmax(outputs, 1)

    def columns(
        self, predictions: Tensor, classes: Sequence[Any] | None, *, each: bool = True
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The most likely class, its probability, the second and the first's lead; and `p_CLASS` for each class.

        Of several labels all that are more likely than not, and the probability of the one that is nearest to a half,
        or of its absence.
        """
        import pyarrow

        names = list(range(self.num_classes)) if classes is None else list(classes)
        named, predictions = pyarrow.array(names), predictions.float()
        rest = predictions.cpu().unbind(1) if each else ()
        last = {f"p_{name}": values.numpy() for name, values in zip(names, rest)}
        if self.multi_label:
            sure = (0.5 + (predictions - 0.5).abs()).amin(1).cpu().numpy()
            return {"prediction": join_labels((predictions > 0.5).cpu(), names), "confidence": sure}, last
        values, top = (found.cpu() for found in predictions.topk(min(2, self.num_classes), 1))
        chosen = {"prediction": named.take(pyarrow.array(top[:, 0].numpy())), "confidence": values[:, 0].numpy()}
        if self.num_classes > 1:
            chosen["second"] = named.take(pyarrow.array(top[:, 1].numpy()))
            chosen["margin"] = (values[:, 0] - values[:, 1]).numpy()
        return chosen, last

    def to_mapping(self) -> dict[str, Any]:
        calibration = {"temperature": self.temperature, "offsets": list(self.offsets)}
        return {"name": self.name, "num_classes": self.num_classes, **calibration}

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any]) -> Classification:
        """The task that :meth:`to_mapping` wrote; older versions have no temperature, or no offsets.

        Raises:
            ValueError, TypeError or KeyError: when it is not one.
        """
        temperature = float(value.get("temperature", 1.0))
        num_classes, offsets = int(value["num_classes"]), tuple(map(float, value.get("offsets", ())))
        suits = len(offsets) in (0, num_classes) and all(map(math.isfinite, offsets))
        if not (0 < temperature < math.inf and suits):
            raise ValueError
        return cls(num_classes, value["name"] == "multi_label", temperature, offsets)


def task_of(data: Data, scale: str = "linear") -> Task:
    """The task that the labels of a checked `Data` show.

    Args:
        data: with labels `y`.
        scale: of the numbers of a regression, a name of :data:`gpnn.train.regression.SCALES`, or "auto": "linear".

    Raises:
        ValueError: when there are no labels.
    """
    from gpnn.train.regression import Regression

    if data.get("y") is None:
        raise ValueError("`data` must have labels `y` to learn from. Got none.")
    if are_numbers(data.y):
        return Regression("linear" if scale == "auto" else scale)
    known: Any = data.get("num_classes")
    if known is None:
        known = data.y.shape[1] if data.y.dim() == 2 else int(data.y.max()) + 1
    return Classification(int(known), data.y.dim() == 2)


def shown_metrics(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the metrics that belong to a run's task, by its `metrics.json`, the one that selects last.

    >>> shown_metrics({"task": "classification", "metric": "roc_auc"})
    ('accuracy', 'recall', 'roc_auc')
    """
    older = "multi_label" if metrics.get("multi_label") else "classification"  # versions that do not name the task
    shown = SHOWN.get(str(metrics.get("task", older)), ())
    chosen = metrics.get("metric")
    return shown if chosen in (*shown, "loss", None) else (*shown, str(chosen))


def parse_task(value: Any, file: str) -> Task:
    """The task that a file holds as :meth:`Task.to_mapping` gives it.

    Raises:
        ValueError: when it holds something else.
    """
    from gpnn.train.regression import Regression

    try:
        if not isinstance(value, Mapping):
            raise TypeError
        check_choice("name", value["name"], SHOWN)
        if value["name"] == "regression":
            return Regression.from_mapping(value)
        return Classification.from_mapping(value)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(f"{file} must hold a task. Got {shorten(value)}.") from None
