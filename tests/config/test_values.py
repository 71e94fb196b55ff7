import tomllib

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from gpnn.config.values import dump_toml, parse_literal


@pytest.mark.parametrize(
    ("text", "value"),
    [("-3", -3), ("0.5", 0.5), ("false", False), ('"5"', "5"), ("phase", "phase"), ("1\nx = 2", "1\nx = 2"), ("", "")],
)
def test_literals(text, value):
    assert parse_literal(text) == value


scalars = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False), st.text(st.characters(codec="utf-8"))
)
values = st.one_of(scalars, st.lists(scalars, max_size=3))
tables = st.recursive(
    st.dictionaries(st.text(max_size=8), values, max_size=4),
    lambda inner: st.dictionaries(st.text(max_size=8), st.one_of(values, inner.filter(bool)), max_size=4),
    max_leaves=6,
)


@settings(deadline=None, max_examples=150)
@given(tables)
def test_tomllib_reads_back_what_was_written(table):
    assert tomllib.loads(dump_toml(table)) == table


def test_nothing_is_left_out():
    assert dump_toml({"a": None, "b": 1}) == "b = 1\n"


def test_what_toml_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="A setting must be text, a number, true or false, or a list"):
        dump_toml({"a": object()})
