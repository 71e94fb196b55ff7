"""Regression: one number per node, with an interval that holds it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.train.loss import Weighing, target_weight
from gpnn.train.metrics import NUMBER_METRICS, mean_of
from gpnn.train.task import Prediction, Scale, Task

if TYPE_CHECKING:
    from gpnn.train.recipe import Recipe

SCALES = ("linear", "log")
LEVEL = 0.9  # share of nodes whose number the interval of a table of predictions holds
STEPS = 200  # steps between the quantiles of the errors that are kept
LARGEST = 10.0  # of a logarithm of a variance, so that its exponential stays finite
LEAST = 1e-6  # of a ratio of variances
FAR = 10.0  # deviations from the mean, beyond which logarithms do not go


@dataclass(frozen=True)
class Regression(Task):
    """One number per node.

    The model has two outputs: the mean of the standardised number z, and the logarithm of its variance s. The mean is
    trained by its squared error, the variance by the Gaussian likelihood of that error, which the mean does not feel:

        ½(z − μ)² + ½((z − μ̄)² e^(−s) + s), μ̄ without gradient.

    An interval is μ ± q·e^(s/2), where q is the quantile of |z − μ|·e^(−s/2) over the validation nodes (split conformal
    prediction with normalised errors, Lei et al. 2018); without validation nodes it is a Gaussian's.

    Attributes:
        scale: "log": the logarithm of the number is standardised; predictions are then medians.
        mean, deviation: of the training targets, in that scale.
        errors: quantiles of the normalised errors of the validation nodes, from 0 to 1 in equal steps; none without.
        num_errors: number of these nodes.
    """

    scale: str = "linear"
    mean: float = 0.0
    deviation: float = 1.0
    errors: tuple[float, ...] = ()
    num_errors: int = 0

    name = "regression"
    metrics = (*NUMBER_METRICS, "coverage")
    watched = "r2"
    num_outputs = 2
    summary = "a number per node"
    chance = 1.0

    def check(self, names: Sequence[Any] | None) -> None:
        """Any numbers can be learnt."""

    def __post_init__(self) -> None:
        check_choice("target_scale", self.scale, SCALES)

    def scales(self, target: Tensor, group: ProcessGroup = SINGLE) -> tuple[Scale, ...]:
        """Logarithms too, where all targets are positive and skewed to the right, and their logarithms less so."""
        values = torch.cat(group.all_gather(target.double()))
        if len(values) < 3 or bool((values <= 0).any()):
            return ("linear",)
        skew = _skewness(values)
        return ("linear", "log") if skew > 1 and abs(_skewness(values.log())) < skew else ("linear",)

    def prepare(self, target: Tensor, group: ProcessGroup = SINGLE) -> Regression:
        """With mean and deviation of the training targets.

        Raises:
            ValueError: when they do not differ, or the scale is "log" and one is not positive.
        """
        if self.scale == "log" and bool(group.any(bool((target <= 0).any()))[0]):
            raise ValueError("`target_scale` 'log' needs positive targets. Got one that is not.")
        values = target.double().log() if self.scale == "log" else target.double()
        mean = mean_of(values, group)
        deviation = math.sqrt(mean_of((values - mean).square(), group))
        if not deviation > 0:
            raise ValueError(f"A regression needs training numbers that differ. Got {self._undo(mean):g} alone.")
        return replace(self, mean=mean, deviation=deviation)

    def calibrate(
        self, outputs: Tensor, target: Tensor, group: ProcessGroup = SINGLE, *, shares: bool = False
    ) -> Regression:
        mean, deviation = self._heads(outputs)
        errors = torch.cat(group.all_gather((self.standardise(target) - mean).abs() / deviation))
        if not errors.numel():
            return self
        count = errors.numel()
        rank = torch.arange(STEPS + 1, device=errors.device).mul(count).div(STEPS, rounding_mode="floor")
        rank = rank + (torch.arange(STEPS + 1, device=errors.device) * count % STEPS > 0)  # ⌈share · count⌉
        quantiles = errors.sort().values[(rank - 1).clamp(min=0)]
        return replace(self, errors=tuple(quantiles.tolist()), num_errors=count)

    def scale_variance(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The same means, their variances scaled to those of the errors."""
        mean, log_variance = _split(outputs)
        error = (self.standardise(target).to(mean) - mean).square()
        shift = (error * torch.exp(-log_variance)).mean().clamp(min=LEAST).log()
        return torch.stack([mean, log_variance + shift], 1)

    def joins(self, blend: Task) -> bool:
        return isinstance(blend, Regression) and blend.scale in ("linear", self.scale)

    def blended(self, others: Iterable[Task]) -> Task:
        """Where scales differ, numbers are averaged in the user's unit."""
        tasks = (self, *(each for each in others if isinstance(each, Regression)))
        return next((each for each in tasks if each.scale == "linear"), self)

    def combine(self, predictions: Sequence[Prediction]) -> Tensor:
        """Mean and variance of the mixture of the predictions, in the standardised scale."""
        heads = [(weight, *self._heads_of(task, outputs)) for weight, task, outputs in predictions]
        mean = torch.stack([weight * each for weight, each, _ in heads]).sum(0)
        spread = torch.stack([weight * (each - mean).square() for weight, each, _ in heads]).sum(0)
        variance = torch.stack([weight * deviation.square() for weight, _, deviation in heads]).sum(0) + spread
        return torch.stack([mean, variance.log()], 1).to(predictions[0].outputs.dtype)

    def choose_metric(self, name: str, target: Tensor, group: ProcessGroup = SINGLE) -> str:
        check_choice("metric", name, ("auto", "loss", *NUMBER_METRICS))
        return "r2" if name == "auto" else name

    def class_weight(self, weight: Any, target: Tensor, group: ProcessGroup) -> Tensor | None:
        if weight != "none":
            raise ValueError(f"`class_weight` must be 'none' in a regression, which has no classes. Got {weight!r}.")
        return None

    def own_weight(self, target: Tensor, class_weight: Tensor | None, weight: Tensor | None = None) -> Tensor:
        return target_weight(target, 1, None, weight)

    def loss(self, outputs: Tensor, target: Tensor, **weighing: Unpack[Weighing]) -> Tensor:
        weight, total = weighing.get("weight"), weighing.get("total")
        mean, log_variance = _split(outputs)
        error = (self.standardise(target).to(mean.dtype) - mean).square()
        each = error + error.detach() * torch.exp(-log_variance) + log_variance
        if weight is None:
            return each.mean() / 2 if total is None else each.sum() / 2 / total.to(each)
        total = self.own_weight(target, None, weight) if total is None else total
        return weight.to(each) @ each / 2 / total.to(each)

    def blend_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The squared error alone, which the metrics of numbers follow: a mixture's variance would move its mean."""
        mean, _ = _split(outputs)
        return (self.standardise(target).to(mean) - mean).square().mean()

    def disagreement(self, outputs: Sequence[Tensor], recipe: Recipe, group: ProcessGroup = SINGLE) -> Tensor:
        """The mean squared distance of each pass's mean to the average of all passes, which takes no gradient."""
        means = torch.stack([_split(each)[0] for each in outputs])  # [S, M]
        count = group.all_reduce(torch.tensor(means.shape[1], device=means.device)).clamp(min=1)
        return (means - means.mean(0).detach()).square().mean(0).sum() / count

    def predict(self, outputs: Tensor) -> Tensor:
        """The number and the ends of its interval at the level `LEVEL`, in the user's unit, `[M, 3]` float64."""
        return self.predict_interval(outputs, LEVEL)

    def predict_interval(self, outputs: Tensor, level: float) -> Tensor:
        """The number and the ends of an interval that holds it with probability `level`, `[M, 3]` float64.

        Raises:
            ValueError: when the level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"`interval` must be between 0 and 1. Got {level}.")
        mean, deviation = self._heads(outputs)
        reach = self._quantile(level) * deviation
        ends = torch.stack([mean, mean - reach, mean + reach], 1) * self.deviation + self.mean
        return ends.exp() if self.scale == "log" else ends

    def columns(
        self, predictions: Tensor, classes: Sequence[Any] | None, *, each: bool = True
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        names = ("prediction", "low", "high")
        return {name: values.numpy() for name, values in zip(names, predictions.cpu().unbind(1))}, {}

    def to_mapping(self) -> dict[str, Any]:
        own = {"scale": self.scale, "mean": self.mean, "deviation": self.deviation}
        return {"name": self.name, **own, "errors": list(self.errors), "num_errors": self.num_errors}

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any]) -> Regression:
        """The task that :meth:`to_mapping` wrote.

        Raises:
            ValueError, TypeError or KeyError: when it is not one.
        """
        mean, deviation = float(value["mean"]), float(value["deviation"])
        errors = tuple(float(each) for each in value["errors"])
        if not (math.isfinite(mean) and 0 < deviation < math.inf and len(errors) in (0, STEPS + 1)):
            raise ValueError
        if any(not 0 <= first <= last < math.inf for first, last in zip((0.0, *errors), errors)):
            raise ValueError
        return cls(value["scale"], mean, deviation, errors, int(value["num_errors"]))

    def standardise(self, target: Tensor) -> Tensor:
        """The numbers as the model predicts them, float64 `[M]`."""
        values = target.double()
        if self.scale == "log":  # a later number that is not positive counts as a very small one
            values = values.clamp(min=math.exp(self.mean - FAR * self.deviation)).log()
        return (values - self.mean) / self.deviation

    def _undo(self, value: float) -> float:
        return math.exp(value) if self.scale == "log" else value

    def _heads(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of the standardised number, `[M]` float64 each."""
        mean, log_variance = _split(outputs.double())
        return mean, torch.exp(log_variance / 2)

    def _heads_of(self, task: Task, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """The same of another task's outputs; of logarithms the median of the number, and a log-normal's deviation."""
        if not isinstance(task, Regression) or task.scale == self.scale:
            return self._heads(outputs)
        mean, deviation = task._heads(outputs)
        number = torch.exp(mean.clamp(-FAR, FAR) * task.deviation + task.mean)
        deviation = number * (deviation * task.deviation).square().clamp(max=LARGEST).expm1().sqrt()
        return (number - self.mean) / self.deviation, deviation / self.deviation

    def _quantile(self, level: float) -> float:
        """How many deviations an interval reaches; of few validation nodes the next larger error, or the largest."""
        if not self.errors:
            return NormalDist().inv_cdf((1 + level) / 2)
        rank = min(self.num_errors, math.ceil((self.num_errors + 1) * level))
        step, beyond = divmod(rank * STEPS, self.num_errors)
        # up to STEPS errors each has a step of its own, the one below its share; among more, the next step is safe
        return self.errors[step if self.num_errors <= STEPS or not beyond else step + 1]


def _skewness(values: Tensor) -> float:
    """The third moment over the cube of the deviation; 0 where all values are equal."""
    centred = values - values.mean()
    deviation = float(centred.square().mean().sqrt())
    return float(centred.pow(3).mean()) / deviation**3 if deviation else 0.0


def _split(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and logarithm of the variance, `[M]` each; a model with one output has variance one."""
    if outputs.shape[1] == 1:
        return outputs[:, 0], torch.zeros_like(outputs[:, 0])
    mean, log_variance = outputs.unbind(1)
    return mean, log_variance.clamp(-LARGEST, LARGEST)
