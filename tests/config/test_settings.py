"""Every setting is documented, and the page of the documentation is what the docstrings say."""

import dataclasses
import importlib.util
from pathlib import Path

from gpnn.config import Config, setting_names
from gpnn.config.settings import list_settings, read_entries

PAGE = Path(__file__).parents[2] / "docs" / "settings_page.py"


def test_every_setting_has_a_sentence_and_its_default():
    found = list_settings()
    assert [each.name for each in found] == setting_names()
    assert all(len(each.about) > 10 and "\n" not in each.about for each in found)
    gated = {each.name: each.default for each in list_settings(Config.of("gated"))}
    assert gated["schedule.rounds"] == Config.of("gated").schedule.rounds


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
