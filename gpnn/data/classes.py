"""Which values are classes: what stands for no label, and which labels are measurements rather than classes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from gpnn.data.labels import labelled_nodes

NO_LABEL = ("", "-1", "nan")  # as text, in any case
FEW = 20  # classes that any graph may have


def is_unlabelled(value: Any) -> bool:
    """Whether a value stands for no label: None, NaN, pandas's NA, -1, or the text "", "-1" or "nan".

    >>> [is_unlabelled(value) for value in (None, float("nan"), -1, "", "NaN", 0, "none")]
    [True, True, True, True, True, False, False]
    """
    if value is None or isinstance(value, str):
        return value is None or value.strip().lower() in NO_LABEL
    try:
        return bool(value == -1 or value != value)
    except TypeError:  # pandas's NA is neither equal to anything nor unequal
        return True


def check_names(names: Iterable[Any], where: str) -> None:
    """Raise ValueError where all names are numbers, written as text or not, and one is not a whole number.

    Args:
        names: the distinct labels.
        where: what holds them, for the error.

    >>> check_names(["2.5", "red"], "`y`")
    """
    odd = []
    for name in names:
        try:
            number = float(name)
        except (ValueError, TypeError, OverflowError):
            return
        if not (math.isfinite(number) and number.is_integer()):
            odd.append(name)
    if odd:
        shown = ", ".join(str(name)[:20] for name in odd[:3]) + (", …" if len(odd) > 3 else "")
        raise ValueError(
            f"{where} must hold classes, which are words or whole numbers; regression is not supported yet. "
            f"Got {len(odd):,} different numbers that are not whole: {shown}."
        )


def check_trainable(y: Tensor, names: Sequence[Any] | np.ndarray | None = None) -> None:
    """Raise ValueError where labels cannot train a classifier: there are none, or almost each is another.

    Classes are shared. More than 20 of them, more than half as many as labelled nodes, are taken for measurements or
    ids, unless few nodes are labelled at all (under a tenth) with numbers close together (a range of at most four times
    their count) or words: a task with one example a class.

    Args:
        y: checked labels, `[N]` or `[N, C]`.
        names: what the classes stand for, or None where they are their numbers.
    """
    known = labelled_nodes(y)
    count = int(known.sum())
    if not count:
        raise ValueError(f"A training needs labels. Got none: all {len(y):,} are empty, NaN or -1.")
    if y.dim() == 2:
        return
    found = y[known].unique().numpy()
    if len(found) <= FEW or 2 * len(found) <= count:
        return
    if 10 * count > len(y) or _far_apart(found if names is None else np.asarray(names)[found]):
        raise ValueError(
            "Labels must be classes that nodes share; regression is not supported yet. "
            f"Got {len(found):,} different labels on {count:,} labelled nodes."
        )


def _far_apart(values: np.ndarray) -> bool:
    return values.dtype.kind in "iuf" and float(values.max()) - float(values.min()) >= 4 * len(values)
