"""The settings that the solver of columns tries, in turn, by what the validation nodes said of those before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpnn.nn.columns.column_model import KINDS
from gpnn.train.metrics import merit

STRENGTHS = tuple(4.0**power for power in range(-2, 6))  # of a ridge, from strong to weak
FIRST = 4.0  # that each kind of columns is tried with
FAILURES = 2  # settings in a row without improvement, after which no weaker, or no stronger, ridge is tried


class Setting(NamedTuple):
    """What the solver does in one epoch.

    Attributes:
        solver: "linear" or "trees".
        columns: which count, of :data:`gpnn.nn.columns.column_model.KINDS`.
        strength: C of the ridge; 0 for trees.
    """

    solver: str
    columns: str
    strength: float = 0.0

    def to_record(self) -> dict[str, float]:
        """The setting as numbers, which a history holds; trees have strength 0.

        >>> Setting("trees", "own").to_record()
        {'columns': 2, 'strength': 0.0}
        """
        return {"columns": KINDS.index(self.columns), "strength": self.strength}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Setting:
        """The setting of a record of a history."""
        return cls("linear" if record["strength"] else "trees", KINDS[record["columns"]], record["strength"])


def next_setting(
    history: Sequence[Mapping[str, Any]],
    metric: str,
    *,
    kinds: Sequence[str],
    solvers: Sequence[str],
    validated: bool = True,
) -> Setting | None:
    """The setting after those of a history; None where there is nothing left to try.

    Each kind of columns is tried with one ridge, and the best of them with trees, where there are any; other kinds too
    where these are better than the ridge. Then the ridge of the best kind becomes weaker, and after that stronger, as
    long as that helps. Without validation there is one setting.

    Args:
        history: a record per epoch, with the numbers of its setting and the validation metric.
        metric: its name.
        kinds: columns to try, in turn, the most last.
        solvers: of "linear" and "trees".
        validated: whether there are validation nodes.

    >>> next_setting([], "accuracy", kinds=("all", "own"), solvers=("linear",))
    Setting(solver='linear', columns='all', strength=4.0)
    """
    if not validated:
        return None if history else Setting(solvers[-1], kinds[-1], FIRST if solvers[-1] == "linear" else 0.0)
    tried = {Setting.of(record): merit(metric, record[f"val_{metric}"]) for record in history}
    first = [Setting("linear", kind, FIRST) for kind in kinds] if "linear" in solvers else []
    for setting in first:
        if setting not in tried:
            return setting
    best = max(first, key=tried.__getitem__) if first else None
    if "trees" in solvers:
        order = sorted(kinds, key=lambda kind: best is not None and kind != best.columns)  # the best one first
        for trees in (Setting("trees", kind) for kind in order):
            if trees not in tried:
                return trees
            if best is not None and tried[trees] <= tried[best]:
                break
    if best is None:
        return None
    ridges = {each.strength: value for each, value in tried.items() if each[:2] == best[:2]}
    start = STRENGTHS.index(FIRST)
    for path in (STRENGTHS[start:], STRENGTHS[start::-1]):
        strength = _next_strength(path, ridges)
        if strength is not None:
            return best._replace(strength=strength)
    return None


def _next_strength(path: Sequence[float], merits: Mapping[float, float]) -> float | None:
    """The next strength on a path whose first one has a merit; None at its end, or after failures in a row."""
    walked = [merits[strength] for strength in path if strength in merits]
    failures = len(walked) - 1 - walked.index(max(walked))
    return path[len(walked)] if len(walked) < len(path) and failures < FAILURES else None
