"""RaceRecord: what a race has decided and done so far, as a file holds it; all that follows depends on it alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpnn.race.budget import allot
from gpnn.recipes import RECIPES, name_training, parse_training
from gpnn.storage.read import shorten, wrong_field
from gpnn.text import metric_text, metric_words, table_html
from gpnn.train.blend import Blend
from gpnn.train.fit import ENDS
from gpnn.train.metrics import SMALLER_IS_BETTER

Row = dict[str, Any]
FIRST_EPOCHS = 12  # that the first rung gives at least, time allowing: all settings of a solver
FRACTIONS = (0.125, 0.5, 1.0)  # of a recipe's epochs, at the end of each rung
KEPT = 0.6  # of the recipes, after each rung: of five three, of four three, of three two; two stay to the end
AGAIN = 1 / 3  # of the budget, for the last rung and for training the members of a blend again
TRAININGS = 3  # of one recipe, with a seed each, that a blend averages at most
_KINDS: dict[str, Any] = {
    "budget": int | float,
    "measured": bool,
    "metric": str,
    "costs": dict,
    "epochs": dict,
    "rows": list | tuple,
    "blend": dict | None,  # versions before it have none
    "expected": int | float | None,  # follows from the others
    "left_out": dict | None,  # versions before it have none
    "too_large": dict | None,  # the same
    "ramps": dict | None,  # the same
}


@dataclass(frozen=True)
class RaceRecord:
    """The decision that a race follows, and a row per training and rung.

    Attributes:
        budget: seconds for all.
        measured: whether the costs were measured, or are nominal.
        metric: what ranks.
        costs: seconds of an epoch of each recipe that takes part.
        epochs: the most epochs of each.
        rows: `rung`, `name`, `epochs`, `seconds`, `value` (higher is better; None where it diverged), `earlier` (the
            same after half of the epochs), `val_loss`, …. Those after the last rung are members of the blend trained
            again, by names of :func:`gpnn.recipes.name_training`.
        interrupted: the row of a training that a callback ended, which no file holds: it will be continued.
        blend: the weights of recipes in a blend; None before it was tried.
        left_out: seconds of an epoch of each recipe whose epochs take too long for the budget.
        too_large: what each recipe that does not fit in memory would take.
        ramps: the epochs over which the weight of a part of each recipe's loss rises.
    """

    budget: float
    measured: bool
    metric: str
    costs: Mapping[str, float]
    epochs: Mapping[str, int]
    rows: tuple[Row, ...] = ()
    interrupted: Row | None = None
    blend: Blend | None = None
    left_out: Mapping[str, float] | None = None
    too_large: Mapping[str, str] | None = None
    ramps: Mapping[str, int] | None = None

    def _repr_html_(self) -> str:
        told = ("name", "epochs", "seconds")
        rows = [
            [each["rung"] + 1, *map(each.get, told), metric_text(self.metric, each.get("value"))] for each in self.rows
        ]
        return table_html(["rung", "recipe", "epochs", "seconds", metric_words(f"val_{self.metric}")], rows)

    def to_mapping(self) -> dict[str, Any]:
        """The record as JSON holds it."""
        blend = None if self.blend is None else self.blend.to_mapping()
        return {name: getattr(self, name) for name in _KINDS} | {"blend": blend}

    @property
    def expected(self) -> float:
        """Seconds that the race takes at most by the costs of an epoch, the costliest staying and rising to the end.

        All that are left are trained again as often as a blend takes.
        """
        record, rising = replace(self, rows=()), {"stopped": "rung", "earlier": -math.inf}
        for rung in range(len(FRACTIONS)):
            limits = rung_epochs(record, rung)
            rows: list[Row] = [
                {"rung": rung, "name": name, "epochs": limits[name], "value": -1 / self.costs[name], **rising}
                for name in record.alive(rung)
            ]
            record = replace(record, rows=(*record.rows, *rows))
        return min(record.budget, TRAININGS * record.taken)

    @property
    def taken(self) -> float:
        """Seconds that all trainings have taken, by the costs of an epoch."""
        done = {row["name"]: row["epochs"] for row in self.rows}
        return float(sum(self.costs[parse_training(name)[0]] * epochs for name, epochs in done.items()))

    @classmethod
    def from_mapping(cls, value: Any, file: str) -> RaceRecord:
        """The record that :meth:`to_mapping` gave.

        Raises:
            ValueError: when it is not one.
        """
        wrong = _first_wrong(value)
        if wrong is not None:
            raise ValueError(f"{file} must hold a race. Got another {shorten(wrong)}.")
        blend = None if value.get("blend") is None else Blend.from_mapping(value["blend"])
        held = {name: each for name, each in value.items() if name != "expected"}
        return cls(**{**held, "rows": tuple(value["rows"]), "blend": blend})

    def find(self, rung: int, name: str) -> Row | None:
        """The row of a training in a rung, or None where it is still to be done."""
        return next((row for row in self.rows if row["rung"] == rung and row["name"] == name), None)

    def alive(self, rung: int) -> list[str]:
        """Who takes part in a rung: the better part of the rung before, best first; nobody before that is done.

        These are the best one and those of the best prospects: a curve that still rises is not left for a level one.
        """
        if rung == 0:
            return list(self.costs)
        ranked = self.ranking(rung - 1)
        others = sorted(ranked[1:], key=lambda name: self.prospect(rung - 1, name), reverse=True)
        kept = {*ranked[:1], *others[: math.ceil(KEPT * len(ranked)) - 1]}
        return [name for name in ranked if name in kept]

    @property
    def finalists(self) -> list[str]:
        """Those of the last rung, best first; nobody before it is done."""
        return self.ranking(len(FRACTIONS) - 1)

    @property
    def candidates(self) -> list[str]:
        """Those that a blend may take, the best first: the finalists, who took part in the second rung, and who ended.

        The latter came to their end in the first rung, as a solver does, and are as good as they will be.
        """
        ended = [name for name in self.ranking(0) if self.find(0, name)["stopped"] in ENDS]  # type: ignore[index]
        return list(dict.fromkeys([*self.finalists, *self.ranking(1), *ended]))

    @property
    def again(self) -> tuple[str, int] | None:
        """The next member of the blend to be trained again, and its epochs; None where nothing is left to do.

        It is of the recipe whose trainings weigh most each, among those that take no longer than what is left; a recipe
        goes as far as its first training did.
        """
        found = {}
        for name, weight in (self.blend.weights if self.blend is not None else {}).items():
            number, epochs = len(self.trainings(name)), self.last(name)["epochs"]
            if RECIPES[name].random and number < TRAININGS and self.taken + self.costs[name] * epochs <= self.budget:
                found[name_training(name, number + 1)] = weight / number, epochs
        if not found:
            return None
        best = max(found, key=lambda name: found[name][0])
        return best, found[best][1]

    def trainings(self, recipe: str) -> list[str]:
        """The names of a recipe's trainings so far."""
        return list(dict.fromkeys(row["name"] for row in self.rows if parse_training(row["name"])[0] == recipe))

    @property
    def mixture(self) -> Blend:
        """The blend whose recipes share their weights among their trainings, except for those that diverged."""
        weights: dict[str, float] = {}
        for recipe, weight in (self.blend.weights if self.blend is not None else {}).items():
            names = [name for name in self.trainings(recipe) if name == recipe or self.last(name)["value"] is not None]
            weights |= {name: weight / len(names) for name in names}
        return Blend(weights if len(weights) > 1 else {}, None if self.blend is None else self.blend.gain)

    @property
    def leader(self) -> str | None:
        """The best training so far, of whichever rung; None before a validation."""
        rows = [*self.rows, *([self.interrupted] if self.interrupted is not None else [])]
        best = rank(list({row["name"]: row for row in rows if row["name"] in self.costs}.values()))
        return best[0]["name"] if best and best[0]["value"] is not None else None

    @property
    def winner(self) -> str | None:
        """The heaviest recipe of the blend, or before and without one the best finalist; None before there is one."""
        weights = {} if self.blend is None else self.blend.weights
        return next(iter((*weights, *self.finalists)), None)

    def prospect(self, rung: int, name: str) -> float:
        """What a training of a rung will have after twice its epochs if its error falls by as much as in the last half.

        The error is what is missing to the best value there is, 1 or, of a loss, 0. What has ended gains no more.
        """
        row = self.find(rung, name)
        if row is None or row["value"] is None:
            return -math.inf
        value, earlier = row["value"], row.get("earlier")  # of older versions None
        most = 0.0 if self.metric in SMALLER_IS_BETTER else 1.0
        if earlier is None or row["stopped"] != "rung" or earlier >= most:
            return float(value)
        return float(most - (most - value) ** 2 / (most - earlier))

    def hopeless(self, rung: int) -> list[str]:
        """Those of the last rung who will not even come to where the best one is; nobody in another rung.

        Where all others have come to their end nobody is: no one else wants the time.
        What the last half of a training gained tells what follows where both its ends lie behind the ramp of its loss.
        """
        if rung < len(FRACTIONS) - 1 or not (alive := self.alive(rung)):
            return []
        best = self.find(rung - 1, alive[0]) or {}
        reached = -math.inf if best.get("value") is None else best["value"]
        told = [name for name in alive[1:] if self.epochs_before(rung, name) > 2 * (self.ramps or {}).get(name, 0)]
        found = [name for name in told if self.prospect(rung - 1, name) < reached]
        others = [self.find(rung - 1, name) or {} for name in alive if name not in found]
        return found if any(row.get("stopped") == "rung" for row in others) else []

    def epochs_before(self, rung: int, name: str) -> int:
        """The epochs that a training had done before a rung."""
        return max((row["epochs"] for row in self.rows if row["name"] == name and row["rung"] < rung), default=0)

    def last(self, name: str) -> Row:
        """The last row of a training that has one."""
        return next(row for row in reversed(self.rows) if row["name"] == name)

    def limit(self, name: str) -> int | None:
        """The epochs after which the budget ended a training; None where it ended by itself."""
        row = self.last(name)
        return row["epochs"] if row["stopped"] == "rung" else None

    def ranking(self, rung: int) -> list[str]:
        """Those of a rung, best first; nobody before it is done."""
        alive = self.alive(rung)
        found = [row for name in self.costs if name in alive and (row := self.find(rung, name)) is not None]
        return [row["name"] for row in rank(found)] if len(found) == len(alive) else []


def rung_epochs(record: RaceRecord, rung: int) -> dict[str, int]:
    """The epoch to which each training that is left goes in a rung.

    The time that is left is shared equally among the rungs that are left, and in a rung among its trainings; a third of
    the budget is kept for the last rung. There one that by its prospect does not come to where the best is stays as it
    is, for the blend, where others want the time. One that does more of its epochs in a rung than the others, as a
    solver does, has as much of its later shares there.
    """
    done = {name: record.epochs_before(rung, name) for name in record.costs}
    kept = AGAIN if rung < len(FRACTIONS) - 1 else 0.0
    left = (1 - kept) * record.budget - sum(done[name] * record.costs[name] for name in done)
    alive = record.alive(rung)
    shares = {name: max(FIRST_EPOCHS, math.ceil(FRACTIONS[rung] * record.epochs[name])) for name in alive}
    wanted = {name: max(0, min(shares[name], record.epochs[name]) - done[name]) for name in alive}
    wanted |= dict.fromkeys(record.hopeless(rung), 0)
    rungs = len(FRACTIONS) - rung
    weights = {name: max(1.0, rungs * wanted[name] / max(1, record.epochs[name] - done[name])) for name in alive}
    given = allot(max(0.0, left) / rungs, record.costs, wanted, weights)
    return {name: max(1, done[name] + given[name]) for name in alive}


def rank(rows: Sequence[Row]) -> list[Row]:
    """Rows from best to worst by value, those that are equal in the order given; what diverged is last.

    Losses break no ties: recipes differ in how sure they are.

    >>> [row["name"] for row in rank([{"name": "a", "value": None}, {"name": "b", "value": 0.5}])]
    ['b', 'a']
    """
    return sorted(rows, key=lambda row: -math.inf if row["value"] is None else row["value"], reverse=True)


def _first_wrong(value: Any) -> Any:
    """What of a file's value is not a record's; None where nothing is."""
    wrong = wrong_field(value, _KINDS)
    if wrong is not None:
        return wrong
    costs, epochs = value["costs"], value["epochs"]
    if not costs or not all(isinstance(each, int | float) and 0 < each < math.inf for each in costs.values()):
        return "costs"
    if set(epochs) != set(costs) or not all(type(each) is int and each > 0 for each in epochs.values()):
        return "epochs"
    if not all(_is_row(row, costs) for row in value["rows"]):
        return "rows"
    return None if value.get("blend") is None or _is_blend(value["blend"], costs) else "blend"


def _is_blend(value: Any, names: Mapping[str, Any]) -> bool:
    try:
        return set(Blend.from_mapping(value).weights) <= set(names)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _is_row(row: Any, names: Mapping[str, Any]) -> bool:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not isinstance(row.get("stopped"), str):
        return False
    again = {name_training(each, number) for each in names for number in range(2, TRAININGS + 1)}
    rungs = range(len(FRACTIONS)) if row["name"] in names else [len(FRACTIONS)] if row["name"] in again else []
    counts = type(row.get("rung")) is int and row["rung"] in rungs and type(row.get("epochs")) is int
    numbers = ("value", "earlier", "val_loss", "seconds")
    return counts and all(isinstance(row.get(name), int | float | None) for name in numbers)
