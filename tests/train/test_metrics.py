import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch
from hypothesis import given, settings

from gpnn.train.metrics import (
    CLASS_METRICS,
    NUMBER_METRICS,
    accuracy,
    average_precision,
    balanced_accuracy,
    choose_metric,
    log_loss,
    macro_f1,
    mae,
    merit,
    r2,
    rmse,
    roc_auc,
    spearman,
)


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
    if set(predicted.tolist()) <= set(target.tolist()) and len(target.unique()) > 1:  # else scikit-learn warns
        expected = sklearn.metrics.balanced_accuracy_score(target, predicted)
        assert balanced_accuracy(probabilities, target) == pytest.approx(expected)
    expected = sklearn.metrics.log_loss(target, probabilities, labels=range(columns))
    assert log_loss(probabilities, target) == pytest.approx(expected)
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


@pytest.mark.parametrize("name", CLASS_METRICS)
def test_a_perfect_prediction_is_the_best(name):
    target = torch.tensor([0, 2, 1, 1])
    one_hot = torch.nn.functional.one_hot(target, 3)
    best = 0.0 if name == "log_loss" else 1.0
    assert CLASS_METRICS[name](one_hot.float(), target) == best
    assert CLASS_METRICS[name](one_hot.float(), one_hot.float()) == best


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 40), st.integers(0, 10**6))
def test_metrics_of_numbers_equal_scikit_learn_and_scipy(rows, seed):
    random = np.random.default_rng(seed)
    target, predicted = random.integers(0, 9, rows) / 4, random.integers(0, 9, rows) / 4  # with ties
    ours = (torch.from_numpy(predicted)[:, None], torch.from_numpy(target))
    assert mae(*ours) == pytest.approx(sklearn.metrics.mean_absolute_error(target, predicted))
    assert rmse(*ours) == pytest.approx(sklearn.metrics.root_mean_squared_error(target, predicted))
    if np.ptp(target) == 0:
        assert np.isnan(r2(*ours))
        assert np.isnan(spearman(*ours))
        return
    assert r2(*ours) == pytest.approx(sklearn.metrics.r2_score(target, predicted))
    if np.ptp(predicted):
        assert spearman(*ours) == pytest.approx(scipy.stats.spearmanr(target, predicted).statistic)


def test_balanced_accuracy_of_labels_is_that_of_each_label():
    target = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    probabilities = torch.tensor([[0.9, 0.2], [0.8, 0.1], [0.3, 0.4]])
    theirs = [sklearn.metrics.balanced_accuracy_score(target[:, c], probabilities[:, c] > 0.5) for c in range(2)]
    assert balanced_accuracy(probabilities, target) == pytest.approx(np.mean(theirs))


def test_errors_are_better_when_they_are_smaller():
    perfect, wrong = torch.tensor([[1.0], [2.0]]), torch.tensor([[2.0], [1.0]])
    target = torch.tensor([1.0, 2.0])
    for name, metric in NUMBER_METRICS.items():
        assert merit(name, metric(perfect, target)) > merit(name, metric(wrong, target))


def test_two_unbalanced_classes_are_judged_by_the_area_under_the_curve():
    rare = torch.tensor([1] * 9 + [0] * 91)
    assert choose_metric("auto", rare) == choose_metric("auto", 1 - rare) == "roc_auc"
    assert choose_metric("auto", torch.tensor([0, 1, 1])) == "accuracy"
    assert choose_metric("auto", torch.tensor([0] * 9 + [2])) == "accuracy"


def test_metric_is_chosen_by_the_labels_or_by_name():
    assert choose_metric("auto", torch.tensor([0, 1])) == "accuracy"
    assert choose_metric("auto", torch.zeros(2, 3)) == "roc_auc"
    assert choose_metric("loss", torch.tensor([0])) == "loss"
    with pytest.raises(ValueError, match=r"`metric` must be one of auto, loss, accuracy.*Got 'recall'"):
        choose_metric("recall", torch.tensor([0]))
