"""Start: how a race builds one of its trainings; Variants: the data as each recipe takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from torch import nn

from gpnn.data.features import Undirected, transform_data
from gpnn.data.splits import GraphFacts
from gpnn.graph import as_graph
from gpnn.memory.engine import check_memory
from gpnn.memory.estimate import estimate_reverses
from gpnn.pages import return_freed
from gpnn.recipes import NamedRecipe, training_seed
from gpnn.train.fit import Callback, FitResult, fit
from gpnn.train.notes import count_one_way
from gpnn.train.recipe import Recipe

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan


class Trial(Protocol):
    """The objects of one training: what :func:`gpnn.train.fit` takes, the model at its initial weights.

    `again` builds the same objects for a recipe and a seed, every "auto" as it was chosen for these.
    """

    @property
    def model(self) -> nn.Module: ...
    @property
    def data(self) -> Data: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def recipe(self) -> Recipe: ...
    @property
    def seed(self) -> int: ...
    @property
    def again(self) -> Callable[[Recipe, int], Self]: ...


T = TypeVar("T", bound=Trial)


class Start(Generic[T]):
    """Builds the objects of a recipe's trainings as often as they are needed; what is "auto" is chosen the first time.

    Args:
        build: makes the objects for a recipe.
        recipe: how they are trained.
    """

    def __init__(self, build: Callable[[Recipe], T], recipe: Recipe) -> None:
        self._build, self._recipe = build, recipe
        self._chosen: tuple[Callable[[Recipe, int], T], int] | None = None

    def __call__(self, epochs: int | None = None, *, number: int = 1) -> T:
        """The objects, with other epochs where these are given; trainings after the first have seeds of their own."""
        return_freed()  # by trainings before, which an estimate would count as taken
        if self._chosen is None:
            made = self._build(self._with(epochs))
            self._chosen = made.again, made.seed
            self._recipe = replace(made.recipe, epochs=self._recipe.epochs)
            if number == 1:
                return made
        build, seed = self._chosen
        return build(self._with(epochs), training_seed(seed, number))

    def _with(self, epochs: int | None) -> Recipe:
        return self._recipe if epochs is None else replace(self._recipe, epochs=epochs)


def fit_trial(
    trial: Trial, checkpoint: Path | None, callbacks: Sequence[Callback] = (), *, score_interrupted: bool = True
) -> FitResult:
    """Train, from a checkpoint where there is one; it then holds the end, or where the training was stopped."""
    return fit(
        trial.model,
        trial.data,
        trial.plan,
        recipe=trial.recipe,
        seed=trial.seed,
        checkpoint=checkpoint,
        callbacks=callbacks,
        keep_end=True,
        score_interrupted=score_interrupted,
    )


class Variants:
    """The data of a race with edges and features as its recipes take them, each made once.

    Args:
        data: as it was given to the race.
        undirected: whether that has been given reverses of its edges already.
        scale_features: how its features are scaled.
        rescale: gives the data with features of another scale; None: they are scaled from `data`.
        memory: bytes that the process may take; None is what is free.
    """

    def __init__(
        self,
        data: Data,
        undirected: Undirected = False,
        scale_features: str = "none",
        rescale: Callable[[str], Data] | None = None,
        memory: float | None = None,
    ) -> None:
        self.data, self.undirected, self._memory = data, undirected, memory
        self._rescale = rescale or (lambda scale: transform_data(data, scale_features=scale))
        self._scaled = {scale_features: data}
        self._made: dict[tuple[Any, str], Data] = {}

    def facts(self, *, scale_is_set: bool) -> GraphFacts:
        """The facts that choose recipes, of the features before they were scaled.

        Where a scale is set for all recipes, those for another one are no choice: no row counts as different.
        """
        if scale_is_set:
            return replace(GraphFacts.of(self.data), rows_differ=False)
        return GraphFacts.of(self.get(undirected=self.undirected, scale_features="none"))

    def settings(self, recipe: NamedRecipe) -> dict[str, Any]:
        """What a recipe sets of the data: `undirected`, `scale_features`, where they are its own."""
        return recipe.data_settings(**self._edges)

    @cached_property
    def _edges(self) -> dict[str, Any]:
        """Whether there are edges without a reverse, or were before these were added; and the types of edges."""
        graph = as_graph(self.data)
        one_way = bool(self.undirected) or count_one_way(graph) > 0
        return {"one_way": one_way, "num_edge_types": graph.num_edge_types}

    def get(self, *, undirected: Undirected, scale_features: str) -> Data:
        """The data with these transforms.

        Raises:
            DoesNotFit: when reverses of the edges do not fit in memory.
        """
        if scale_features not in self._scaled:
            self._scaled[scale_features] = self._rescale(scale_features)
        scaled, key = self._scaled[scale_features], (undirected, scale_features)
        if undirected == self.undirected:
            return scaled
        if key not in self._made:
            num_edges = as_graph(scaled).num_edges
            check_memory(f"Reverses of {num_edges:,} edges", estimate_reverses(num_edges), self._memory)
            self._made[key] = transform_data(scaled, undirected=undirected)
        return self._made[key]
