import tomllib

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from gpnn.config import Config, DataConfig, ModelConfig, parse_config
from gpnn.config.sections import dump_toml
from gpnn.train import Recipe


def test_a_configuration_survives_its_own_file():
    config = Config(
        seed=4,
        device="cpu",
        data=DataConfig("nell", root="/somewhere", options={"rate": 0.001}),
        model=ModelConfig(head=(4, 2), cell_options={"alpha": 0.1}),
        train=Recipe(class_weight=(1.0, 2.5), weight_decay=1e-5),
    )
    assert parse_config(tomllib.loads(config.to_toml())) == (config, [])


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
