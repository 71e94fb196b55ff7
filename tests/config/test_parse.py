import dataclasses
import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpnn.check import SETTING_NAMES, TABLE_NAMES
from gpnn.config import Config, parse_config, read_settings, setting_names
from gpnn.config.parse import list_settings, parse_literal, read_entries
from gpnn.data.load import loader_options
from gpnn.data.tables import tables
from gpnn.divide import METHODS
from gpnn.schedule import SCHEDULES
from gpnn.train.recipe import DEFAULT_RECIPE


def test_nothing_said_is_the_default():
    assert parse_config({}) == (Config(), [])


def test_file_and_overrides(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('seed = 3\n[train]\nepochs = 7\n[model]\nhead = [16, 8]\n[data]\nname = "cora"\nsplit = "random"\n')
    settings = read_settings(file, ["train.learning_rate=1e-3", "data.seed=5", "model.cell_options.alpha=0.1"])
    config, problems = parse_config(settings)
    assert problems == []
    assert config.seed == 3
    assert config.train == replace(DEFAULT_RECIPE, epochs=7, learning_rate=0.001)
    assert config.model.head == (16, 8)
    assert config.model.cell_options == {"alpha": 0.1}
    assert (config.data.name, config.data.options) == ("cora", {"split": "random", "seed": 5})


def test_another_schedule_does_not_take_the_options_of_the_recipes_own():
    """`recipe=large schedule.name=synchronous` was refused for an option that nobody gave."""
    schedules = [{}, {"name": "held_cut", "rounds": 2}, {"name": "synchronous"}, {"name": "partitioned", "cut": 2}]
    found = [parse_config({"recipe": "large", "schedule": each})[0].schedule.options for each in schedules]
    assert found == [{"intra": 3}, {"intra": 3}, {}, {"cut": 2}]


def test_all_problems_are_reported_together():
    _, problems = parse_config(
        {
            "sed": 1,
            "train": {"epoch": 10, "clip": "tight", "temperature": 10**400, "patience": -1},
            "model": {"hiden_channels": 3, "concat": 1},
            "modell": {},
        }
    )
    assert problems == [
        "`sed` is not a setting. Did you mean `seed`?",
        "`train.epoch` is not a setting. Did you mean `train.epochs`?",
        "`train.clip` must be a number. Got 'tight'.",
        f"`train.temperature` must be a number. Got 1{'0' * 75}…0.",
        "`train.patience` must be at least 0. Got -1.",
        "`model.hiden_channels` is not a setting. Did you mean `model.hidden_channels`?",
        "`model.concat` must be text. Got 1.",
        "`modell` is not a setting. Did you mean `model`?",
    ]


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("epochs", "train.epochs"), ("model.epochs", "train.epochs"), ("train.learningrate", "train.learning_rate")],
)
def test_the_nearest_name_is_found_across_sections(key, nearest):
    settings = read_settings(None, [f"{key}=1"])
    assert parse_config(settings)[1] == [f"`{key}` is not a setting. Did you mean `{nearest}`?"]


def test_a_name_like_nothing_names_the_list():
    (problem,) = parse_config({"zzz": 1})[1]
    assert problem == "`zzz` is not a setting. `gpnn settings` lists those that there are."


def test_whole_numbers_pass_as_floats_and_auto_as_a_size():
    config, problems = parse_config({"train": {"clip": 1}, "partition": {"k": "auto"}})
    assert problems == []
    assert config.train.clip == 1.0
    _, problems = parse_config({"partition": {"k": "many"}, "seed": True})
    assert problems == [
        "`partition.k` must be an integer or 'auto'. Got 'many'.",
        "`seed` must be an integer. Got True.",
    ]


def test_a_section_must_be_a_table():
    assert parse_config({"train": 5})[1] == ["`train` must be a section. Got 5."]


@pytest.mark.parametrize("word", ["epochs", "=3"])
def test_a_word_without_a_key_is_refused(word):
    with pytest.raises(ValueError, match=r"must look like section.key=value"):
        read_settings(None, [word])


def test_a_setting_below_a_value_is_refused():
    with pytest.raises(ValueError, match=r"`seed.deep` must lie in a section. `seed` is a value"):
        read_settings(None, ["seed=3", "seed.deep=4"])


def test_a_file_that_is_missing_or_not_toml_is_refused(tmp_path):
    with pytest.raises(ValueError, match="configuration file must exist"):
        read_settings(tmp_path / "none.toml", [])
    (tmp_path / "bad.toml").write_text("seed = = 3")
    with pytest.raises(ValueError, match=r"bad.toml must be TOML. Invalid value"):
        read_settings(tmp_path / "bad.toml", [])


def test_every_setting_has_a_dotted_name():
    names = setting_names()
    assert names == list(SETTING_NAMES)
    assert {"seed", "device", "data.name", "partition.k", "train.consistency", "model.drop_node"} <= set(names)
    assert not any(name.endswith("options") and name != "model.cell_options" for name in names)


def test_a_very_long_name_is_cut_in_the_sentence():
    _, problems = parse_config({"train": {"9" * 5000: 1}})
    assert problems[0].startswith("`train.999")
    assert len(problems[0]) < 300


PAGE = Path(__file__).parents[2] / "docs" / "settings_page.py"


def test_every_setting_has_a_sentence_and_its_default():
    found = list_settings()
    assert [each.name for each in found if each.name not in TABLE_NAMES] == setting_names()
    assert {each.name for each in found} >= {*TABLE_NAMES}
    assert {"data.undirected", *TABLE_NAMES} == {f"data.{name}" for name in loader_options(tables)}
    assert all(len(each.about) > 10 and "\n" not in each.about for each in found)
    gated = {each.name: each.default for each in list_settings(Config.of("gated"))}
    assert gated["schedule.rounds"] == Config.of("gated").schedule.rounds


@pytest.mark.parametrize(("setting", "table"), [("partition.method", METHODS), ("schedule.name", SCHEDULES)])
def test_a_setting_that_names_an_entry_lists_them_all(setting, table):
    (about,) = (each.about for each in list_settings() if each.name == setting)
    assert [name for name in table if not re.search(rf"\b{name}\b", about)] == []


def test_entries_of_a_docstring():
    @dataclasses.dataclass
    class Section:
        """What it is.

        Attributes:
            one: the first, see
                :func:`gpnn.lower`.
            two: "a": b; c.

        Raises:
            ValueError: never.
        """

    assert read_entries(Section) == {"one": "the first, see `lower`.", "two": '"a": b; c.'}
    assert read_entries(object) == {}


def test_the_page_is_made_from_the_docstrings():
    spec = importlib.util.spec_from_file_location("settings_page", PAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text() == module.page(), "python -m docs.settings_page writes it anew"


@pytest.mark.parametrize(
    ("text", "value"),
    [("-3", -3), ("0.5", 0.5), ("false", False), ('"5"', "5"), ("phase", "phase"), ("1\nx = 2", "1\nx = 2"), ("", "")],
)
def test_literals(text, value):
    assert parse_literal(text) == value
