import json

import pytest

from gpnn.cli.words import about_settings, check_words
from gpnn.config.parse import list_settings


def test_settings_are_listed(gpnn):
    assert "train.learning_rate" in gpnn("settings").stdout
    train = json.loads(gpnn("settings", "train", "--recipe", "gated", "--json").stdout)
    assert train["train.clip"]["default"] == 5.0
    assert all(name.startswith("train.") for name in train)
    assert gpnn("settings", "partition", "-q").stdout.split()[:2] == ["partition.method", "partition.k"]
    assert gpnn("settings", "lr", "-q").stdout.split() == ["train.learning_rate"]
    assert "model.drop_node" in gpnn("settings", "drop", "-q").stdout.split()
    assert "`teapot` is not a setting." in gpnn("settings", "teapot").stderr


def test_the_help_of_training_lists_every_setting_with_what_it_does(gpnn):
    shown = gpnn("train", "--help").stdout
    for name, about in about_settings().items():
        assert f" {name} " in shown
        assert about.split()[0] in shown
    every = {each.name: each.about.removeprefix("of tables: ") for each in list_settings()}
    assert set(about_settings()) == set(every)
    assert all(every[name].startswith(about) for name, about in about_settings().items())


def test_a_wrong_option_of_tables_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "edges.csv").write_text("")
    check_words([str(tmp_path), "data.label=club", "data.undirected=true", "schedule.intra=2"])
    with pytest.raises(ValueError, match=r"^`data\.soruce` is not a setting\. Did you mean `data\.source`\?$"):
        check_words([str(tmp_path), "data.soruce=from"])


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
