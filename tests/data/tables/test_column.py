"""Columns in their plain kinds, and which names are whole numbers."""

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.data.tables.column import as_text, named, plain_column, trimmed


def text(*values: str) -> pyarrow.Array:
    return pyarrow.array(values, pyarrow.large_string())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pyarrow.array([1, 2], pyarrow.int8()), [1, 2]),
        (pyarrow.array([1, None]), ["1", ""]),
        (pyarrow.array([2**63], pyarrow.uint64()), ["9223372036854775808"]),
        (pyarrow.array([True, False]), [1, 0]),
        (pyarrow.array([True, None]), ["1", ""]),
        (pyarrow.array([0.5], pyarrow.float32()), [0.5]),
        (pyarrow.array([0.5]).cast(pyarrow.decimal128(3, 1)), [0.5]),
        (pyarrow.array(np.array([0.5], np.float16)), [0.5]),
        (pyarrow.chunked_array([np.array([0.5], np.float16)]), [0.5]),
        (pyarrow.array(["a", None]), ["a", ""]),
        (pyarrow.array([" a ", "b\u00a0"]), ["a", "b"]),
        (pyarrow.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pyarrow.chunked_array([["a"], ["b"]]), ["a", "b"]),
        (pyarrow.array([b"a"]), ["a"]),
        (pyarrow.array([None, None]), ["", ""]),
        (pyarrow.array([], pyarrow.string()), []),
    ],
)
def test_plain_kinds(values: pyarrow.Array, expected: list) -> None:
    assert plain_column(values).to_pylist() == expected


def test_a_missing_number_is_not_a_number() -> None:
    assert np.isnan(plain_column(pyarrow.array([None], pyarrow.float64()))[0].as_py())


@pytest.mark.parametrize(
    "values", [pyarrow.array([[1]]), pyarrow.array([{"a": 1}]), pyarrow.array([1], pyarrow.duration("s"))]
)
def test_other_types_are_refused(values: pyarrow.Array) -> None:
    with pytest.raises(TypeError, match=r"list|struct|duration"):
        plain_column(values)


@pytest.mark.parametrize(
    "values",
    [["07"], ["+7"], ["7.0"], ["0x1F"], ["-0"], ["7", ""], ["9223372036854775808"], ["1e3"], ["seven"], ["7", "8 9"]],
)
def test_names_that_are_no_whole_numbers_stay_text(values: list[str]) -> None:
    assert named(text(*values)).to_pylist() == values


def test_whole_floats_are_whole_numbers() -> None:
    assert named(pyarrow.array([1.0, -2.0])).to_pylist() == [1, -2]
    assert named(pyarrow.array([1.5, 2.0])).to_pylist() == ["1.5", "2"]
    assert named(pyarrow.array([2.0**60])).type == pyarrow.large_string()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
@settings(max_examples=200, deadline=None)
def test_numbers_go_through_text_unchanged(numbers: list[int]) -> None:
    values = named(text(*map(str, numbers)))
    if min(numbers) > -(2**63):
        assert values.type == pyarrow.int64()
    assert as_text(values).to_pylist() == list(map(str, numbers))


@given(st.lists(st.text(alphabet="0123456789-+. x", max_size=5), min_size=1))
@settings(max_examples=300, deadline=None)
def test_names_print_as_they_were_written(values: list[str]) -> None:
    assert as_text(named(text(*values))).to_pylist() == values


@given(st.lists(st.text(alphabet=" \ta\u00a0é,7", max_size=6)))
@settings(max_examples=100, deadline=None)
def test_trimming_is_what_python_does(values: list[str]) -> None:
    assert trimmed(text(*values)).to_pylist() == [value.strip() for value in values]
