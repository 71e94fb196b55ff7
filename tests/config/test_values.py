from typing import Literal

import pytest

from gpnn.config.values import convert, describe, parse_literal


@pytest.mark.parametrize(
    ("text", "value"),
    [("-3", -3), ("0.5", 0.5), ("false", False), ('"5"', "5"), ("phase", "phase"), ("1\nx = 2", "1\nx = 2"), ("", "")],
)
def test_literals(text, value):
    assert parse_literal(text) == value


@pytest.mark.parametrize(
    ("value", "hint"), [(1.5, int), (True, int), (True, float), ("1", int), (3, tuple[int, ...]), ([1, "a"], list[int])]
)
def test_what_does_not_fit_is_refused(value, hint):
    with pytest.raises(TypeError):
        convert(value, hint)


def test_types_in_words():
    assert describe(Literal["a", "b"] | tuple[float, ...]) == "'a' or 'b' or a list (each a number)"
    assert describe(str | None) == "text or nothing"
    assert describe(dict[str, int]) == "a table"
