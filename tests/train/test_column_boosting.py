import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from gpnn.nn.column_fitted import Trees
from gpnn.train.column_boosting import boost, join

SETTINGS = {"max_leaf_nodes": 7, "l2_regularization": 1.0, "early_stopping": False}
HALF = {"max_features": 0.5}  # of the columns, for classes


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    return random.standard_normal((300, 6)).astype(np.float32), random


def outputs(found, columns, num_outputs):
    trees = Trees(len(found.output), found.arrays["value"].shape[1])
    trees.store(found.arrays, found.output)
    return trees(torch.from_numpy(columns), num_outputs) + found.baseline


@pytest.mark.parametrize("classes", [2, 4])
def test_classes_are_predicted_as_scikit_learn_does(rows, classes):
    columns, random = rows
    target = (columns[:, :classes].argmax(1) + (random.random(300) < 0.1)) % classes
    found, staged = boost(columns, target, num_outputs=classes, iterations=9, num_leaves=7, seed=3)
    theirs = HistGradientBoostingClassifier(max_iter=9, min_samples_leaf=6, random_state=3, **SETTINGS, **HALF)
    theirs.fit(columns, target)
    probabilities = torch.softmax(outputs(found, columns, classes), 1).numpy()
    np.testing.assert_allclose(probabilities, theirs.predict_proba(columns), atol=1e-9)
    for count, stage in enumerate(staged(columns[:20]), 1):
        np.testing.assert_allclose(outputs(found.first(count), columns[:20], classes), stage, atol=1e-9)


def test_numbers_are_predicted_as_scikit_learn_does(rows):
    columns, random = rows
    target = columns[:, 0] * columns[:, 1] + 0.1 * random.standard_normal(300)
    found, _ = boost(columns, target, num_outputs=2, iterations=9, num_leaves=7, share=1.0, seed=3)
    theirs = HistGradientBoostingRegressor(max_iter=9, min_samples_leaf=6, random_state=3, **SETTINGS)
    predicted = outputs(found, columns, 2)
    np.testing.assert_allclose(predicted[:, 0], theirs.fit(columns, target).predict(columns), atol=1e-9)
    assert not predicted[:, 1].any()


def test_a_class_without_rows_and_joined_labels_keep_their_outputs(rows):
    columns, _ = rows
    target = np.where(columns[:, 0] > 0, 3, 1)
    alone, _ = boost(columns, target, num_outputs=4, iterations=5, num_leaves=7)
    assert set(alone.output.tolist()) == {3}
    both = [
        boost(columns, (columns[:, c] > 0).astype(int), num_outputs=2, iterations=5, num_leaves=7)[0] for c in (0, 1)
    ]
    joined = join([each.moved(label, 2) for label, each in enumerate(both)])
    predicted = outputs(joined, columns, 2)
    assert ((predicted > 0).numpy() == (columns[:, :2] > 0)).mean() > 0.95
