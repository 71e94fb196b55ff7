"""The settings that the solver of columns tries, in turn, by what the validation nodes said of those before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpnn.train.metrics import merit

STRENGTHS = tuple(4.0**power for power in range(-2, 5))  # of a ridge, from strong to weak
FIRST = 1.0  # the one that is taken where nothing validates
FAILURES = 2  # settings in a row without improvement, after which no weaker ridge is tried


class Setting(NamedTuple):
    """What the solver does in one epoch.

    Attributes:
        solver: "linear" or "trees".
        columns: which count: "all", "unlabelled" (no labels of neighbours) or "own".
        strength: C of the ridge; 0 for trees.
    """

    solver: str
    columns: str
    strength: float = 0.0


def next_setting(
    history: Sequence[dict[str, Any]],
    metric: str,
    *,
    kinds: Sequence[str],
    solvers: Sequence[str],
    validated: bool = True,
) -> Setting | None:
    """The setting after those of a history; None where there is nothing left to try.

    For each kind of columns the ridge becomes weaker as long as that helps; then come the trees. Without validation
    there is one setting.

    Args:
        history: a record per epoch, with the fields of its setting and the validation metric.
        metric: its name.
        kinds: columns to try, in turn.
        solvers: of "linear" and "trees".
        validated: whether there are validation nodes.

    >>> next_setting([], "accuracy", kinds=("all", "own"), solvers=("linear",))
    Setting(solver='linear', columns='all', strength=0.0625)
    """
    if not validated:
        return None if history else Setting(solvers[-1], kinds[0], FIRST if solvers[-1] == "linear" else 0.0)
    if "linear" in solvers:
        for columns in kinds:
            path = [record for record in history if (record["solver"], record["columns"]) == ("linear", columns)]
            strength = _next_strength(path, metric)
            if strength is not None:
                return Setting("linear", columns, strength)
    if "trees" in solvers:
        done = {record["columns"] for record in history if record["solver"] == "trees"}
        return next((Setting("trees", columns) for columns in kinds if columns not in done), None)
    return None


def _next_strength(path: Sequence[dict[str, Any]], metric: str) -> float | None:
    merits = [merit(metric, record[f"val_{metric}"]) for record in path]
    best = merits.index(max(merits)) if merits else 0
    number = STRENGTHS.index(path[-1]["strength"]) + 1 if path else 0
    if number >= len(STRENGTHS) or len(merits) - 1 - best >= FAILURES:
        return None
    return STRENGTHS[number]
