import hypothesis.strategies as st
import numpy as np
import pytest
import sklearn.metrics
import torch
from hypothesis import given, settings

from gpnn.train.metrics import METRICS, accuracy, average_precision, choose_metric, macro_f1, roc_auc


def coarse(rows: int, columns: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities with many ties, and classes."""
    random = np.random.default_rng(seed)
    scores = random.integers(1, 5, (rows, columns)).astype(np.float64)
    return torch.from_numpy(scores / scores.sum(1, keepdims=True)), torch.from_numpy(
        random.integers(columns, size=rows)
    )


def test_accuracy_of_classes_and_of_labels():
    assert accuracy(torch.tensor([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4]]), torch.tensor([1, 0, 1])) == pytest.approx(2 / 3)
    assert accuracy(torch.tensor([[0.2, 0.8], [0.9, 0.6]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])) == 0.75


def test_macro_f1_leaves_out_classes_that_nobody_names():
    probabilities = torch.eye(4)[[0, 1, 1]]
    assert macro_f1(probabilities, torch.tensor([0, 1, 1])) == 1.0


@settings(deadline=None, max_examples=30)
@given(st.integers(4, 40), st.integers(2, 4), st.integers(0, 10**6))
def test_metrics_equal_scikit_learn(rows, columns, seed):
    probabilities, target = coarse(rows, columns, seed)
    predicted = probabilities.argmax(1)
    expected = sklearn.metrics.f1_score(target, predicted, average="macro")
    assert macro_f1(probabilities, target) == pytest.approx(expected)
    one_hot = torch.nn.functional.one_hot(target, columns)
    present = [c for c in range(columns) if 0 < one_hot[:, c].sum() < rows]
    if columns == 2:
        present = [c for c in present if c == 1]
    if not present:
        assert np.isnan(roc_auc(probabilities, target))
        return
    for ours, theirs in (
        (roc_auc, sklearn.metrics.roc_auc_score),
        (average_precision, sklearn.metrics.average_precision_score),
    ):
        expected = np.mean([theirs(one_hot[:, c], probabilities[:, c]) for c in present])
        assert ours(probabilities, target) == pytest.approx(expected)


@pytest.mark.parametrize("name", METRICS)
def test_a_perfect_prediction_scores_one(name):
    target = torch.tensor([0, 2, 1, 1])
    one_hot = torch.nn.functional.one_hot(target, 3)
    assert METRICS[name](one_hot.float(), target) == 1.0
    assert METRICS[name](one_hot.float(), one_hot.float()) == 1.0


def test_metric_is_chosen_by_the_labels_or_by_name():
    assert choose_metric("auto", torch.tensor([0, 1])) == "accuracy"
    assert choose_metric("auto", torch.zeros(2, 3)) == "roc_auc"
    assert choose_metric("loss", torch.tensor([0])) == "loss"
    with pytest.raises(ValueError, match=r"`metric` must be one of auto, loss, accuracy.*Got 'recall'"):
        choose_metric("recall", torch.tensor([0]))
