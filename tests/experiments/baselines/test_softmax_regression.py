import numpy as np
import pytest
from scipy.sparse import csr_matrix

from experiments.baselines.softmax_regression import fit_softmax
from experiments.baselines.visible import Labelled


@pytest.mark.parametrize("num_classes", [2, 3])
def test_agrees_with_scikit_learn(num_classes: int) -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    x = csr_matrix(rng.random((40, 6)) * (rng.random((40, 6)) < 0.5))
    train = Labelled(np.arange(30), np.arange(30) % num_classes)
    found = fit_softmax(x, train, num_classes, 1.0).probabilities(x)
    expected = LogisticRegression(C=1.0).fit(x[:30], train.classes).predict_proba(x)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_unused_columns_and_unseen_classes_count_for_nothing() -> None:
    x = csr_matrix(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 9]]))
    model = fit_softmax(x, Labelled(np.array([0, 1]), np.array([0, 3])), 5, 1.0)
    assert model.columns.tolist() == [0, 1]
    found = model.probabilities(x)
    assert found[:, [1, 2, 4]].max() == 0
    np.testing.assert_allclose(found[2], [0.5, 0, 0, 0.5, 0], atol=1e-3)
    assert found[:2].argmax(1).tolist() == [0, 3]


def test_one_class_is_certain() -> None:
    x = csr_matrix(np.eye(3))
    found = fit_softmax(x, Labelled(np.array([0, 1]), np.array([1, 1])), 2, 1.0).probabilities(x)
    assert found.tolist() == [[0, 1]] * 3
