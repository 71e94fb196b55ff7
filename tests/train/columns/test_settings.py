import pytest

from gpnn.train.columns.settings import STRENGTHS, next_setting


def walk(value, *, kinds=("all", "own"), solvers=("linear", "trees"), validated=True):
    history = []
    while (setting := next_setting(history, "accuracy", kinds=kinds, solvers=solvers, validated=validated)) is not None:
        history.append({**setting._asdict(), "val_accuracy": value(setting)})
    return history


def test_the_ridge_becomes_weaker_as_long_as_it_helps_then_trees_follow():
    history = walk(lambda setting: -abs(setting.strength - 1.0))
    found = [(each["solver"], each["columns"], each["strength"]) for each in history]
    path = [each for each in STRENGTHS if each <= 16]
    assert found == [
        *(("linear", "all", each) for each in path),
        *(("linear", "own", each) for each in path),
        ("trees", "all", 0.0),
        ("trees", "own", 0.0),
    ]


def test_a_path_that_rises_is_walked_to_its_end():
    assert [
        each["strength"] for each in walk(lambda setting: setting.strength, kinds=("own",), solvers=("linear",))
    ] == list(STRENGTHS)


@pytest.mark.parametrize(("solvers", "expected"), [(("linear",), "linear"), (("linear", "trees"), "trees")])
def test_without_validation_there_is_one_setting(solvers, expected):
    (only,) = walk(lambda setting: 0.0, solvers=solvers, validated=False)
    assert only["solver"] == expected
