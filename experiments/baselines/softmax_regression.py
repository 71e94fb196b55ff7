"""Softmax regression on sparse features: the linear classifier that several methods end in."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.baselines.selection import validate
from experiments.baselines.visible import Labelled, labelled

if TYPE_CHECKING:
    from torch_geometric.data import Data

MAX_ITERATIONS = 300


@dataclass(frozen=True, eq=False)
class SoftmaxRegression:
    """p(c | x) ∝ exp(x W + b), over the classes that the training nodes have.

    Attributes:
        weight: `[f, c]`, for the columns that training nodes use and the classes that they have.
        bias: `[c]`.
        columns: the columns, `[f]`.
        classes: the classes, `[c]`.
        num_classes: number of all classes C.
    """

    weight: np.ndarray
    bias: np.ndarray
    columns: np.ndarray
    classes: np.ndarray
    num_classes: int

    def scores(self, x: Any) -> np.ndarray:
        """x W + b, `[N, c]`."""
        return np.asarray(x[:, self.columns] @ self.weight) + self.bias

    def probabilities(self, x: Any) -> np.ndarray:
        """p(c | x) of all classes, `[N, C]`; zero for classes without a training node."""
        from scipy.special import softmax

        return spread(softmax(self.scores(x), axis=1), self.classes, self.num_classes)


def spread(values: np.ndarray, classes: np.ndarray, num_classes: int) -> np.ndarray:
    """The columns `[N, c]` at the places of their classes, `[N, C]`; zeros elsewhere."""
    out = np.zeros((len(values), num_classes), values.dtype)
    out[:, classes] = values
    return out


def fit_softmax(x: Any, train: Labelled, num_classes: int, strength: float) -> SoftmaxRegression:
    """The minimum of Σ cross entropy + ‖W‖² / (2·strength) over the training nodes, by scikit-learn's L-BFGS.

    Columns that no training node uses have weight zero there and are left out beforehand, so that millions of
    columns cost what the used ones cost.

    Args:
        x: features, scipy sparse or numpy, `[N, F]`.
        train: the training nodes and their classes.
        num_classes: number of all classes C.
        strength: C of scikit-learn; larger is less regularised.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    rows = x[train.nodes]
    columns = np.flatnonzero(np.asarray(abs(rows).sum(axis=0)).ravel())
    classes = np.unique(train.classes)
    if len(classes) == 1 or not len(columns):
        share = np.bincount(train.classes, minlength=num_classes)[classes] / len(train.classes)
        return SoftmaxRegression(np.zeros((len(columns), len(classes))), np.log(share), columns, classes, num_classes)
    model = LogisticRegression(C=strength, max_iter=MAX_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last of many steps matters little
        warnings.filterwarnings(
            "ignore", "The number of unique classes"
        )  # one node a class is how few labels there are
        model.fit(rows[:, columns], train.classes)
    weight, bias = model.coef_.T, model.intercept_
    if len(classes) == 2:  # scikit-learn gives the second class's score against the first's
        weight, bias = np.hstack([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
    return SoftmaxRegression(weight, bias, columns, classes, num_classes)


def choose_softmax(x: Any, data: Data, strengths: Sequence[float]) -> SoftmaxRegression:
    """The fit of the strength that validates best."""
    train = labelled(data, "train")
    fits = [fit_softmax(x, train, data.num_classes, strength) for strength in strengths]
    if len(fits) == 1:
        return fits[0]
    return max(fits, key=lambda each: validate(each.probabilities(x), data))
