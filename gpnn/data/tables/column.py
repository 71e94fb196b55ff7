"""Columns of a table in one of three plain kinds: text, whole numbers, or numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow

MISSING = ("na", "n/a", "none", "null", "nil", "unknown", "?")  # what other programs write for no value
WHOLE_FLOATS = 2**53  # past it a float no longer names one whole number


def plain_column(values: Any) -> pyarrow.Array:
    """Arrow values as text (`large_string`, "" where missing), `int64`, or `float64` (NaN where missing); no nulls.

    Dates and times become text like 2024-05-31 12:30:00.

    Text that is whole numbers throughout, as :func:`named` has it, becomes `int64`. Whole numbers with gaps, and those
    past 2^63, become text: nothing is lost.

    Raises:
        TypeError: with the name of a type that is neither text nor numbers.

    >>> import pyarrow
    >>> plain_column(pyarrow.array([1, None])).to_pylist()
    ['1', '']
    """
    import pyarrow
    from pyarrow import compute, types

    kind = values.type
    if types.is_dictionary(kind):
        values = _decoded(values)
        kind = values.type
    if types.is_float16(kind):  # pyarrow 15 does not cast it
        values = pyarrow.array(_one_chunk(values).to_numpy(zero_copy_only=False).astype(np.float64))
    if types.is_floating(kind) or types.is_decimal(kind):
        return _one_chunk(compute.fill_null(values.cast(pyarrow.float64()), float("nan")))
    if types.is_integer(kind) or types.is_boolean(kind):
        return _whole(values)
    if types.is_date(kind) or types.is_timestamp(kind):
        moments = values.cast(pyarrow.timestamp("s"), safe=False)
        return _one_chunk(compute.fill_null(moments.cast(pyarrow.large_string()), ""))
    if types.is_binary(kind) or types.is_large_binary(kind):
        values, kind = values.cast(pyarrow.large_binary()).cast(pyarrow.large_string()), pyarrow.large_string()
    if str(kind) in ("string", "large_string", "string_view", "null"):  # pyarrow 15 has no test for views
        text = values.cast(pyarrow.large_string())
        text = compute.fill_null(text, "") if text.null_count else text
        numbers = _integers(text)  # chunk by chunk: joined text would be copied for nothing
        return trimmed(_one_chunk(text)) if numbers is None else numbers
    raise TypeError(str(kind))


def python_column(values: list[Any]) -> pyarrow.Array:
    """Python's values as a plain column: numbers where all are, else text."""
    import pyarrow

    try:
        return plain_column(pyarrow.array(values))
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        return plain_column(pyarrow.array([None if value is None else str(value) for value in values]))


def trimmed(text: pyarrow.Array) -> pyarrow.Array:
    """The text without surrounding blanks; as it is where there is no blank at all."""
    from pyarrow import compute

    content = _bytes(text)
    if not len(content) or (content.min() > ord(" ") and content.max() < 128):
        return text
    return compute.utf8_trim_whitespace(text)


def named(values: pyarrow.Array) -> pyarrow.Array:
    """The values as names: `int64` where each is a whole number written the one usual way, else text.

    "7" is the number 7; "07", "+7" and "7.0" are other names. Whole floats are whole numbers.

    >>> import pyarrow
    >>> named(pyarrow.array(["7", "-3"], pyarrow.large_string())).to_pylist()
    [7, -3]
    >>> named(pyarrow.array(["7", "07"], pyarrow.large_string())).to_pylist()
    ['7', '07']
    """
    import pyarrow
    from pyarrow import types

    if types.is_int64(values.type):
        return values
    if types.is_floating(values.type):
        numbers = values.to_numpy()
        whole = len(numbers) > 0 and bool((np.abs(numbers) < WHOLE_FLOATS).all() and (numbers % 1 == 0).all())
        return pyarrow.array(numbers.astype(np.int64)) if whole else as_text(values)
    numbers = _integers(values)
    return values if numbers is None else numbers


def as_text(values: pyarrow.Array) -> pyarrow.Array:
    """The same values as text; "" where missing."""
    import pyarrow
    from pyarrow import compute, types

    if types.is_floating(values.type):
        text = values.cast(pyarrow.large_string())
        return compute.if_else(compute.is_nan(values), "", text).cast(pyarrow.large_string())
    return values.cast(pyarrow.large_string())


def missing_text(values: pyarrow.Array) -> pyarrow.Array:
    """Whether each text is empty or a word for a missing value."""
    import pyarrow
    from pyarrow import compute

    words = pyarrow.array(["", "nan", *MISSING], pyarrow.large_string())
    return compute.is_in(compute.utf8_lower(values), words)


def alike(parts: list[pyarrow.Array]) -> list[pyarrow.Array]:
    """Arrays of one type, to be joined: as text where they differ."""
    parts = [part for part in parts if len(part)] or parts[:1]
    return parts if len({part.type for part in parts}) == 1 else [as_text(part) for part in parts]


def distinct(parts: list[pyarrow.Array]) -> pyarrow.Array:
    """The distinct values of all arrays, in order; as text where their types differ."""
    import pyarrow
    from pyarrow import compute

    found = pyarrow.chunked_array(alike(parts)).unique()
    return found.take(compute.array_sort_indices(found))


def sorted_names(names: Iterable[Any]) -> list[Any]:
    """The distinct names in their order, as text where one of them is.

    >>> sorted_names([10, 9, 9]), sorted_names([10, "9"])
    ([9, 10], ['10', '9'])
    """
    found = set(names)
    return sorted({str(name) for name in found} if any(isinstance(name, str) for name in found) else found)


def _integers(text: Any) -> pyarrow.Array | None:
    """The text as int64 where every value is a whole number in its shortest form, else None."""
    import pyarrow
    from pyarrow import compute

    total = 0
    for chunk in text.chunks if isinstance(text, pyarrow.ChunkedArray) else [text]:
        content = _bytes(chunk)
        if len(content) and (content.max() > ord("9") or content.min() < ord("-")):  # "0x1F" would pass the cast
            return None
        total += len(content)
    try:
        numbers = _one_chunk(compute.cast(text, pyarrow.int64())) if total else None
    except pyarrow.ArrowInvalid:
        return None
    # A number's shortest form is the only one of its length or less, so equal totals mean that all are shortest.
    return numbers if numbers is not None and _total_length(numbers.to_numpy()) == total else None


def _total_length(numbers: np.ndarray) -> int:
    """The number of characters of the printed numbers."""
    least = int(numbers.min())
    total = len(numbers) + int(np.count_nonzero(numbers < 0))
    size = numbers if least >= 0 else np.abs(numbers.astype(np.float64)) if least == -(2**63) else np.abs(numbers)
    power, most = 10, float(size.max())
    while power <= most:
        total += int(np.count_nonzero(size >= power))
        power *= 10
    return total


def _whole(values: Any) -> pyarrow.Array:
    import pyarrow
    from pyarrow import compute

    if values.null_count == 0:
        try:
            return _one_chunk(values.cast(pyarrow.int64()))
        except pyarrow.ArrowInvalid:  # past 2^63
            pass
    if pyarrow.types.is_boolean(values.type):
        values = values.cast(pyarrow.int8())
    return _one_chunk(compute.fill_null(values.cast(pyarrow.large_string()), ""))


def _decoded(values: Any) -> pyarrow.Array:
    """The values of a dictionary, chunk by chunk; views of text, as polars gives them, become text."""
    import pyarrow

    chunks = values.chunks if isinstance(values, pyarrow.ChunkedArray) else [values]
    kind = pyarrow.large_string() if "string" in str(values.type.value_type) else values.type.value_type
    return _one_chunk(
        pyarrow.chunked_array([chunk.dictionary.cast(kind).take(chunk.indices) for chunk in chunks], kind)
    )


def _one_chunk(values: Any) -> pyarrow.Array:
    import pyarrow

    return values.combine_chunks() if isinstance(values, pyarrow.ChunkedArray) else values


def text_bytes(text: pyarrow.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each value begins, `[R + 1]`, in the bytes of a `large_string` array, and these bytes."""
    offsets, content = text.buffers()[1:]
    if content is None or not len(text):
        return np.zeros(len(text) + 1, np.int64), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    return ends, np.frombuffer(content, np.uint8)


def _bytes(text: pyarrow.Array) -> np.ndarray:
    """The characters of all values, one after the other, as bytes."""
    ends, content = text_bytes(text)
    return content[ends[0] : ends[-1]]
