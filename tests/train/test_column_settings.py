import pytest

from gpnn.train import column_settings
from gpnn.train.column_settings import FIRST, STRENGTHS, Setting, column_arguments, next_setting


def walk(value, *, kinds=("all", "own"), solvers=("linear", "trees"), validated=True):
    history = []
    while (setting := next_setting(history, "accuracy", kinds=kinds, solvers=solvers, validated=validated)) is not None:
        history.append({**setting.to_record(), "val_accuracy": value(setting)})
    return history


def test_every_kind_is_tried_then_the_ridge_of_the_best_one():
    peak = {"all": 0.5, "own": 0.7}
    history = walk(lambda setting: peak[setting.columns] - abs(setting.strength - 16.0) / 1000)
    assert [tuple(Setting.of(each)) for each in history] == [
        ("linear", "all", FIRST),
        ("linear", "own", FIRST),
        ("trees", "own", 0.0),  # worse than the ridge, and so is the other kind
        ("trees", "all", 0.0),
        *(("linear", "own", each) for each in (16.0, 64.0, 256.0)),  # the last two are worse
        *(("linear", "own", each) for each in (1.0, 0.25)),
    ]


def test_a_kind_that_the_ridge_prefers_by_chance_does_not_keep_trees_from_the_others():
    history = walk(
        lambda setting: 0.9 if setting[:2] == ("trees", "all") else 0.5 + (setting[:2] == ("linear", "labels")) / 100,
        kinds=("own", "labels", "means", "all"),
    )
    trees = [Setting.of(each).columns for each in history if not each["strength"]]
    assert trees == ["labels", "all", "means", "own"]


def test_trees_that_are_better_are_tried_with_every_kind():
    history = walk(lambda setting: 1.0 if setting.solver == "trees" else -setting.strength)
    assert [Setting.of(each).columns for each in history if not each["strength"]] == ["all", "own"]


def test_paths_that_rise_are_walked_to_their_ends():
    history = walk(lambda setting: abs(setting.strength - FIRST), kinds=("own",), solvers=("linear",))
    assert sorted(each["strength"] for each in history) == list(STRENGTHS)


def test_trees_alone_are_tried_once_per_kind():
    assert [tuple(Setting.of(each)) for each in walk(lambda setting: 0.0, solvers=("trees",))] == [
        ("trees", "own", 0.0),
        ("trees", "all", 0.0),
    ]


@pytest.mark.parametrize(("solvers", "expected"), [(("linear",), "linear"), (("linear", "trees"), "trees")])
def test_without_validation_there_is_one_setting(solvers, expected):
    (only,) = walk(lambda setting: 0.0, solvers=solvers, validated=False)
    assert Setting.of(only).solver == expected


def test_labels_of_a_large_graph_are_read_two_steps_away(planted, monkeypatch):
    assert column_arguments(planted)["hops"] == 3
    monkeypatch.setattr(column_settings, "MOST_SENT", planted.num_edges * 4 - 1)  # three classes and the count
    assert column_arguments(planted)["hops"] == 2
    assert column_arguments(planted, hops=1)["hops"] == 1
