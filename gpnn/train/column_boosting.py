"""boost: gradient boosting of decision trees by scikit-learn, as the arrays of `Trees`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpnn.nn.column_fitted import Trees


@dataclass(frozen=True, eq=False)
class Boosted:
    """An ensemble of decision trees.

    Attributes:
        arrays: by the names of :attr:`gpnn.nn.column_fitted.Trees.ARRAYS`, `[T, L]` each.
        output: the output that each tree adds to, `[T]`.
        baseline: the outputs before the first tree, `[C]`.
        per_iteration: trees of an iteration.
    """

    arrays: dict[str, Tensor]
    output: Tensor
    baseline: Tensor
    per_iteration: int

    def first(self, iterations: int) -> Boosted:
        """The ensemble after fewer iterations."""
        count = iterations * self.per_iteration
        arrays = {name: array[:count] for name, array in self.arrays.items()}
        return Boosted(arrays, self.output[:count], self.baseline, self.per_iteration)

    def moved(self, label: int, num_outputs: int) -> Boosted:
        """The trees of two classes, for the output `label` of many."""
        baseline = torch.zeros(num_outputs, dtype=torch.float64)
        baseline[label] = self.baseline[1]
        return Boosted(self.arrays, torch.full_like(self.output, label), baseline, self.per_iteration)


def boost(
    columns: np.ndarray,
    target: np.ndarray,
    *,
    num_outputs: int,
    iterations: int,
    num_leaves: int,
    weight: np.ndarray | None = None,
    share: float = 0.5,
    seed: int = 0,
) -> tuple[Boosted, Callable[[np.ndarray], Iterator[Tensor]]]:
    """The trees of one target, and a function that gives the outputs of further rows after 1, 2, … iterations.

    Two classes have one tree per iteration, for the second output; the first stays zero. Numbers are output 0.

    Args:
        columns: `[M, D]`.
        target: classes, whole numbers `[M]`, or numbers `[M]`.
        num_outputs: C.
        iterations: of boosting.
        num_leaves: of a tree, at most.
        weight: of each row, `[M]`, or None.
        share: of the columns that a split is chosen among.
        seed: of their choice.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    classes = np.issubdtype(target.dtype, np.integer)
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    found = kind(
        max_iter=iterations,
        max_leaf_nodes=num_leaves,
        min_samples_leaf=int(np.clip(len(target) // 50, 2, 20)),
        l2_regularization=1.0,
        max_features=share,
        early_stopping=False,
        random_state=seed,
    )
    with threadpool_limits(torch.get_num_threads(), "openmp"):
        found.fit(columns, target, sample_weight=weight)
    place = _outputs_of(found, classes)
    arrays, output = _arrays(found._predictors, place)
    baseline = torch.zeros(num_outputs, dtype=torch.float64)
    baseline[place] = torch.from_numpy(np.asarray(found._baseline_prediction, np.float64).reshape(-1))

    def staged(rows: np.ndarray) -> Iterator[Tensor]:
        stages = found.staged_decision_function if classes else found.staged_predict
        for scores in stages(rows):
            outputs = torch.zeros(len(rows), num_outputs, dtype=torch.float64)
            outputs[:, place] = torch.from_numpy(np.ascontiguousarray(scores).reshape(len(rows), -1))
            yield outputs

    return Boosted(arrays, output, baseline, len(place)), staged


def join(ensembles: list[Boosted]) -> Boosted:
    """Ensembles of different outputs as one, whose iterations are no longer told apart."""
    widest = max(each.arrays["value"].shape[1] for each in ensembles)
    arrays = {
        name: torch.cat([_widen(each.arrays[name], widest) for each in ensembles]) for name in ensembles[0].arrays
    }
    output = torch.cat([each.output for each in ensembles])
    return Boosted(arrays, output, torch.stack([each.baseline for each in ensembles]).sum(0), len(output))


def _outputs_of(found: Any, classes: bool) -> list[int]:
    """The output of each tree of an iteration; classes that no row has keep none."""
    if not classes:
        return [0]
    present = [int(each) for each in found.classes_]
    return present[1:] if len(present) == 2 else present


def _arrays(predictors: list[list[Any]], place: list[int]) -> tuple[dict[str, Tensor], Tensor]:
    """The trees of all iterations, one after the other."""
    trees = [tree.nodes for iteration in predictors for tree in iteration]
    names = {"feature": "feature_idx", "threshold": "num_threshold", "left": "left", "right": "right", "value": "value"}
    width = max(map(len, trees))
    arrays = {}
    for name, dtype in Trees.ARRAYS.items():
        array = np.zeros((len(trees), width), torch.empty(0, dtype=dtype).numpy().dtype)
        for row, nodes in zip(array, trees):
            row[: len(nodes)] = np.where(nodes["is_leaf"], 0, nodes[names[name]]) if name != "value" else nodes["value"]
        arrays[name] = torch.from_numpy(array)
    return arrays, torch.tensor(place * len(predictors), dtype=torch.int32)


def _widen(array: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(array, (0, width - array.shape[1]))
