import json

import pytest


def test_settings_are_listed(gpnn):
    assert "train.learning_rate" in gpnn("settings").stdout
    train = json.loads(gpnn("settings", "train", "--recipe", "gated", "--json").stdout)
    assert train["train.clip"]["default"] == 5.0
    assert all(name.startswith("train.") for name in train)
    assert gpnn("settings", "partition", "-q").stdout.split()[:2] == ["partition.method", "partition.k"]
    assert "`section` must be one of data, partition" in gpnn("settings", "teapot").stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["lr=0.1"], "`lr` is not a setting. Did you mean `train.learning_rate`?"),
        (["model.num_layers=3"], "Did you mean `schedule.rounds`?"),
        (["teapot=1"], "`teapot` is not a setting. `gpnn settings` lists those that there are."),
    ],
)
def test_a_wrong_setting_names_the_right_one(gpnn, words, hint):
    result = gpnn("train", "digits", *words)
    assert result.exit_code == 2
    assert hint in result.stderr


def test_an_option_that_is_a_setting_is_named(gpnn):
    result = gpnn("train", "digits", "--epochs", "3")
    assert result.exit_code == 2
    assert "train.epochs=VALUE" in result.stderr
