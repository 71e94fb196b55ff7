"""scikit-learn's own checks of an estimator, over graphs of nearest neighbours."""

from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpnn import GPNNClassifier, GPNNRegressor, Graph
from gpnn.train.notes import NoteWarning

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings(f"ignore::{NoteWarning.__module__}.{NoteWarning.__qualname__}"),
]
SMALL: dict[str, Any] = {"epochs": 40, "cell": "gru", "hidden_channels": 8, "rounds": 1, "validation_fraction": 0}
SMALL |= {"learning_rate": 0.05, "dropout": 0.0, "input_dropout": 0.0, "drop_node": 0.0, "weight_decay": 0.0}

# what scikit-learn expects of an estimator whose rows do not know each other, and why nodes are otherwise
NODES = {
    "check_methods_sample_order_invariance": "a node's prediction depends on the nodes that are joined to it",
    "check_methods_subset_invariance": "a node's prediction depends on the nodes that are joined to it",
    "check_sample_weight_equivalence_on_dense_data": "a node of weight 0 is not learnt from, but still sends messages",
    "check_sample_weight_equivalence_on_sparse_data": "a node of weight 0 is not learnt from, but still sends messages",
    "check_supervised_y_2d": "a column of labels is taken as a list of them, without a warning",
}
CLASSIFIER = {
    **NODES,
    "check_classifiers_classes": "-1 is no class but an unlabelled node, as in sklearn.semi_supervised",
}
REGRESSOR = {**NODES, "check_fit2d_1sample": "one number is refused as numbers that do not differ"}


def joined(X: Any) -> Graph:
    """The graph of the rows and their nearest neighbours; of what is not a table of numbers, one without edges."""
    x = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if x.ndim != 2 or x.dtype.kind not in "iuf" or len(x) < 2 or not np.isfinite(x).all():
        return Graph([], [], num_nodes=len(x))
    return Graph.from_scipy(kneighbors_graph(x, min(5, len(x) - 1)))


class NeighboursClassifier(GPNNClassifier):
    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X, y, adjacency=joined(X), sample_weight=sample_weight)

    def predict_proba(self, X):
        return super().predict_proba(X, adjacency=joined(X))

    def predict(self, X):
        return super().predict(X, adjacency=joined(X))

    def score(self, X, y=None, sample_weight=None):
        return super().score(X, y, adjacency=joined(X), sample_weight=sample_weight)


class NeighboursRegressor(GPNNRegressor):
    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X, y, adjacency=joined(X), sample_weight=sample_weight)

    def predict(self, X):
        return super().predict(X, adjacency=joined(X))

    def score(self, X, y=None, sample_weight=None):
        return super().score(X, y, adjacency=joined(X), sample_weight=sample_weight)


def expected(estimator: Any) -> dict[str, str]:
    return CLASSIFIER if isinstance(estimator, GPNNClassifier) else REGRESSOR


@parametrize_with_checks([NeighboursClassifier(**SMALL), NeighboursRegressor(**SMALL)], expected_failed_checks=expected)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
