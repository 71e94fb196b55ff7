"""Recipe: how a model is trained, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_type_hints

from gpnn.check import wrong_types
from gpnn.data.splits import has_one_class

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Recipe:
    """The settings of :func:`gpnn.train.fit`; they check themselves when they are made.

    Attributes:
        epochs: the most epochs, each one exact gradient step over the whole graph.
        optimizer: "adam", "adamw", "lazy_adam", "sgd" or "rmsprop". With "lazy_adam" the embeddings of nodes that
            reach no training label in an epoch (few labels, few rounds, no `consistency` over them) stand still,
            where "adam" moves them on along their old momentum; all else moves as with "adam".
        learning_rate: the step size after the warm-up.
        learning_rate_schedule: how it moves after the warm-up: "constant", "cosine" or "linear" (both towards
            zero at the last epoch), or "step" (a tenth after one half and again after three quarters); the same in
            every generation.
        warmup: epochs over which the learning rate rises linearly to `learning_rate`.
        weight_decay: wd, for wd·½‖w‖² added to the loss (decoupled with "adamw"); "auto" follows the number of columns:
            :func:`choose_weight_decay`.
        decay_on: what decays: "all_but_embeddings", "matrices" (no bias, no embedding) or "all".
        clip: the largest gradient norm; 0 leaves gradients alone.
        class_weight: "none", "balanced" (inverse frequency among the training nodes), or a weight per class.
        label_smoothing: the share of each target spread over all classes.
        passes: S, forward passes per epoch, each with its own dropout and DropNode masks.
        batch: unlabelled nodes of a mini-batch, beside labelled ones (:class:`gpnn.train.solvers.MiniBatches`); 0:
            every step takes the whole graph.
        labelled: labelled nodes of a mini-batch, at most.
        consistency: λ of the loss that draws the passes to their sharpened average (GRAND, 2020); 0 is off.
        consistency_warmup: epochs over which λ rises linearly.
        consistency_on: the nodes it is taken over: "all" or "unlabelled" (those outside the training mask).
        consistency_threshold: the least confidence of a node's average prediction with which it counts.
        temperature: of the sharpening; below 1 is sharper.
        self_training: epochs of a generation. After each the model starts anew, and learns beside the training labels
            those that its best weights so far are surest of (:mod:`gpnn.train.self_training`); 0: there is one alone;
            "auto": 150 where each node has one class.
        precision: "float32", "tf32" (products of float32 numbers rounded to TF32, on GPUs that have it), "bf16"
            (autocast; weights, loss and optimiser stay float32) or "bf16_states" (states and messages in bfloat16,
            sums in float32, by the fused kernels; encoder in bfloat16, head in float32).
        target_scale: of the numbers of a regression: "linear", "log" (positive ones), or "auto": "log" where it is
            better on the validation nodes (:func:`gpnn.train.fit.resolve_target_scale`).
        metric: what selects the best weights: "auto", a name of `gpnn.train.METRICS`, or "loss".
        check_every: epochs between two validations.
        patience: validations without improvement after which training stops; 0 never stops early.
        tolerance: the gain of the metric, as a share of its level, that patience counts; the weights of a smaller gain
            are kept, but it does not prolong the training.
        checkpoint_every: epochs between two checkpoints; 0 leaves it to the clock.
        checkpoint_seconds: seconds between two checkpoints; 0 leaves it to the epochs.

    Raises:
        ValueError: naming every setting that is out of range.

    >>> Recipe(epochs=10).learning_rate
    0.01
    """

    epochs: int = 200
    optimizer: str = "adam"
    learning_rate: float = 0.01
    learning_rate_schedule: str = "constant"
    warmup: int = 0
    weight_decay: float | Literal["auto"] = 5e-4
    decay_on: Literal["all_but_embeddings", "matrices", "all"] = "all_but_embeddings"
    clip: float = 5.0
    class_weight: Literal["none", "balanced"] | tuple[float, ...] = "none"
    label_smoothing: float = 0.0
    passes: int = 1
    batch: int = 0
    labelled: int = 50
    consistency: float = 0.0
    consistency_warmup: int = 50
    consistency_on: Literal["all", "unlabelled"] = "all"
    consistency_threshold: float = 0.0
    temperature: float = 0.5
    self_training: int | Literal["auto"] = 0
    precision: Literal["float32", "tf32", "bf16", "bf16_states"] = "float32"
    target_scale: Literal["auto", "linear", "log"] = "auto"
    metric: str = "auto"
    check_every: int = 1
    patience: int = 50
    tolerance: float = 0.0
    checkpoint_every: int = 0
    checkpoint_seconds: float = 10.0

    def __post_init__(self) -> None:
        problems = wrong_types(vars(self), get_type_hints(Recipe))
        problems = problems or [*_out_of_range(self), *_unknown_choices(self)]
        if not problems and self.consistency > 0 and self.passes < 2:
            problems.append(f"`consistency` needs `passes` of at least 2. Got {self.passes}.")
        if problems:
            raise ValueError(" ".join(problems))

    def generation(self, epoch: int) -> tuple[int, int]:
        """The generation of an epoch and the epoch's number in it, both from 1.

        >>> Recipe(self_training=200).generation(201)
        (2, 1)
        """
        if not self.self_training:
            return 1, epoch
        number, before = divmod(epoch - 1, int(self.self_training))
        return number + 1, before + 1


_AT_LEAST = {
    "epochs": 1,
    "warmup": 0,
    "weight_decay": 0,
    "clip": 0,
    "label_smoothing": 0,
    "passes": 1,
    "batch": 0,
    "labelled": 1,
    "consistency": 0,
    "consistency_warmup": 0,
    "consistency_threshold": 0,
    "self_training": 0,
    "check_every": 1,
    "patience": 0,
    "tolerance": 0,
    "checkpoint_every": 0,
    "checkpoint_seconds": 0,
}
_POSITIVE = ("learning_rate", "temperature")
_AT_MOST_ONE = ("label_smoothing", "consistency_threshold")


def _out_of_range(recipe: Recipe) -> list[str]:
    problems = []
    for name, low in _AT_LEAST.items():
        value = getattr(recipe, name)
        if not isinstance(value, str) and not low <= value < float("inf"):
            problems.append(f"`{name}` must be at least {low}. Got {value}.")
    for name in _POSITIVE:
        value = getattr(recipe, name)
        if not 0 < value < float("inf"):
            problems.append(f"`{name}` must be greater than 0. Got {value}.")
    for name in _AT_MOST_ONE:
        if getattr(recipe, name) > 1:
            problems.append(f"`{name}` must be at most 1. Got {getattr(recipe, name)}.")
    if not isinstance(recipe.class_weight, str) and not all(0 <= each < float("inf") for each in recipe.class_weight):
        problems.append(f"`class_weight` must hold numbers from 0. Got {recipe.class_weight}.")
    return problems


def _unknown_choices(recipe: Recipe) -> list[str]:
    from gpnn.train.metrics import METRICS
    from gpnn.train.optimizer import LEARNING_RATE_SCHEDULES, OPTIMIZERS

    choices = {
        "optimizer": list(OPTIMIZERS),
        "learning_rate_schedule": list(LEARNING_RATE_SCHEDULES),
        "metric": ["auto", "loss", *METRICS],
    }
    return [
        f"`{name}` must be one of {', '.join(allowed)}. Got {value!r}."
        for name, allowed in choices.items()
        if (value := getattr(recipe, name)) not in allowed
    ]


# The default, the same for every graph; docs/recipes.md says how it was chosen. Two passes whose sharpened average both
# are drawn to: on every graph tried it gained, or did no harm.
DEFAULT_RECIPE = Recipe(
    epochs=400,
    patience=100,
    tolerance=0.001,
    weight_decay="auto",
    passes=2,
    consistency=1.0,
    consistency_warmup=100,
    temperature=0.5,
)


GENERATION = 150  # epochs, where a recipe leaves them open


def resolve_recipe(recipe: Recipe, data: Data) -> Recipe:
    """The recipe with what is "auto" chosen: the weight decay by the number of features, generations by the labels."""
    if recipe.weight_decay == "auto":
        x = data.get("x")
        recipe = replace(recipe, weight_decay=choose_weight_decay(0 if x is None else x.shape[1]))
    if recipe.self_training == "auto":
        recipe = replace(recipe, self_training=GENERATION if has_one_class(data.y) else 0)
    return recipe


def choose_weight_decay(num_features: int) -> float:
    """5e-4 for up to 4,096 columns, and 5e-4·(4096 / F)^1.5 for more.

    Each of very many columns is seen in few labelled nodes, and a decay that suits hundreds of columns wipes it out:
    docs/recipes.md has the validation accuracies. The exponent passes through what is best at 61,278 columns, 1e-5.

    >>> choose_weight_decay(1433), round(choose_weight_decay(61278), 7)
    (0.0005, 8.6e-06)
    """
    return 5e-4 * min(1.0, 4096 / max(1, num_features)) ** 1.5
