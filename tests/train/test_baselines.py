import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

from gpnn.train.baselines import baseline_note, plain_baselines
from gpnn.train.column_solver import ColumnSolver
from tests.oracle.number_graph import number_graph
from tests.oracle.planted import planted_graph


@pytest.fixture(scope="module")
def planted() -> Data:
    """Three classes of a hundred nodes each."""
    features = lambda y: torch.nn.functional.one_hot(y, 3) * 1.5  # noqa: E731
    return planted_graph(300, 900, friends=0.9, features=features, splits=(120, 90))[0]


def test_every_method_has_the_metrics_of_every_split(planted):
    found = plain_baselines(planted)
    assert list(found) == ["majority", "columns", "neighbours"]
    for metrics in found.values():
        assert {"train_accuracy", "val_accuracy", "test_accuracy", "val_loss", "test_roc_auc", "seconds"} <= set(
            metrics
        )


def test_columns_are_as_good_as_a_logistic_regression(planted):
    train, test = planted.train_mask, planted.test_mask
    best = max(
        (LogisticRegression(C=c).fit(planted.x[train], planted.y[train]) for c in (0.1, 1, 10)),
        key=lambda model: model.score(planted.x[planted.val_mask], planted.y[planted.val_mask]),
    )
    theirs = best.score(planted.x[test], planted.y[test])
    assert plain_baselines(planted)["columns"]["test_accuracy"] == pytest.approx(theirs, abs=0.03)


def test_the_majority_is_the_most_frequent_training_class(planted):
    majority = torch.bincount(planted.y[planted.train_mask]).argmax()
    expected = float((planted.y[planted.test_mask] == majority).float().mean())
    assert plain_baselines(planted)["majority"]["test_accuracy"] == pytest.approx(expected)


def test_numbers_have_a_mean_and_gain_by_their_neighbours():
    found = plain_baselines(number_graph(200))
    assert list(found) == ["mean", "columns", "neighbours"]
    assert found["mean"]["train_r2"] == pytest.approx(0, abs=1e-6)
    assert found["mean"]["test_r2"] < found["columns"]["test_r2"] < found["neighbours"]["test_r2"]


def test_a_graph_without_features_has_no_columns(planted):
    bare = Data(
        **{name: value for name, value in planted.to_dict().items() if name != "x"}, num_nodes=planted.num_nodes
    )
    assert list(plain_baselines(bare)) == ["majority", "neighbours"]


def test_shuffled_test_labels_change_no_metric_but_those_of_the_test(planted):
    shuffled = planted.clone()
    own = planted.test_mask.nonzero().flatten()
    shuffled.y[own] = planted.y[own][torch.from_numpy(np.random.default_rng(0).permutation(len(own)))]
    first, second = plain_baselines(planted), plain_baselines(shuffled)
    for name, metrics in first.items():
        kept = [key for key in metrics if not key.startswith("test") and key != "seconds"]
        assert [metrics[key] for key in kept] == [second[name][key] for key in kept]


def test_a_plain_method_that_is_better_on_validation_is_noted():
    baselines = {"majority": {"val_accuracy": 0.3}, "neighbours": {"val_accuracy": 0.9}}
    assert baseline_note({"metric": "accuracy", "val_accuracy": 0.9}, baselines) is None
    assert baseline_note({"metric": "accuracy"}, baselines) is None
    note = baseline_note({"metric": "accuracy", "val_accuracy": 0.8}, baselines)
    assert note.what == (
        "a linear model of the columns and the neighbours' has a better validation accuracy than this training: 90.0 % "
        "against 80.0 %"
    )
    assert note.setting == "recipe=auto tries other families of models"
    raced = baseline_note({"metric": "accuracy", "val_accuracy": 0.8}, baselines, raced=True)
    assert raced.setting == "a longer budget=… gives all recipes more epochs"
    less = baseline_note({"metric": "mae", "val_mae": 2.0}, {"mean": {"val_mae": 1.0}, "columns": {"val_mae": 3.0}})
    assert less.what.startswith("the mean number has a better validation MAE than this training: 1 against 2")


def test_a_large_graph_is_learnt_from_some_of_its_nodes(planted, monkeypatch):
    sizes = []
    made = ColumnSolver.of
    monkeypatch.setattr(ColumnSolver, "of", lambda *given: sizes.append(len(given[2].nodes["train"])) or made(*given))
    whole = plain_baselines(planted)
    monkeypatch.setattr("gpnn.train.baselines.WORK", 0.0)
    monkeypatch.setattr("gpnn.train.baselines.LEAST_NODES", 9)
    some = plain_baselines(planted)
    num = int(planted.train_mask.sum())
    assert sizes == [num, len(range(0, num, -(-num // 9)))]
    assert some.keys() == whole.keys()
    assert some["columns"]["test_accuracy"] > some["majority"]["test_accuracy"]
