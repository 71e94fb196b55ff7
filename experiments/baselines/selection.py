"""Selection: the candidate that validates best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.baselines.visible import labelled

if TYPE_CHECKING:
    from torch_geometric.data import Data


def validate(probabilities: np.ndarray, data: Data) -> tuple[float, float]:
    """Accuracy and minus the cross entropy on the validation nodes: larger is better; 0, 0 without any.

    Args:
        probabilities: `[N, C]`.
        data: labels and `val_mask`.
    """
    nodes, classes = labelled(data, "val")
    if not len(nodes):
        return 0.0, 0.0
    rows = probabilities[nodes]
    right = rows[np.arange(len(nodes)), classes]
    return float((rows.argmax(1) == classes).mean()), float(np.log(np.maximum(right, 1e-12)).mean())


def choose_best(candidates: Iterable[np.ndarray], data: Data) -> np.ndarray:
    """The probabilities `[N, C]` that validate best; the first of equals, the first of all without validation."""
    best, best_score = None, (-1.0, 0.0)
    for probabilities in candidates:
        score = validate(probabilities, data)
        if best is None or score > best_score:
            best, best_score = probabilities, score
    assert best is not None
    return best


def as_choices(values: Any) -> Sequence[Any]:
    """An option that may be one value or several to choose from, as a sequence.

    >>> as_choices(0.1), as_choices([1, 2])
    ((0.1,), [1, 2])
    """
    return values if isinstance(values, list | tuple) else (values,)
