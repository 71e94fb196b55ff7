"""Values of settings: read from text, checked against a type."""

from __future__ import annotations

import tomllib
import types
from typing import Any, Literal, Union, get_args, get_origin

_NAMES = {int: "an integer", float: "a number", str: "text", bool: "true or false", type(None): "nothing"}


def parse_literal(text: str) -> Any:
    """The value that `text` writes in TOML, or else the text itself.

    >>> [parse_literal(text) for text in ("3", "1e-3", "true", "[1, 2]", "cora")]
    [3, 0.001, True, [1, 2], 'cora']
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if set(parsed) == {"value"} else text


def convert(value: Any, hint: Any) -> Any:
    """The value as the type asks: whole numbers pass as floats, lists as tuples, nothing else changes.

    Raises:
        TypeError: when it does not fit.

    >>> convert(1, float), convert([1, 2], tuple[int, ...])
    (1.0, (1, 2))
    """
    origin = get_origin(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_first(value, get_args(hint))
    if origin is Literal:
        fits = value in get_args(hint)
    elif origin in (tuple, list):
        if isinstance(value, list | tuple):
            return origin(convert(entry, get_args(hint)[0]) for entry in value)
        fits = False
    elif hint is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        value = _to_float(value) if fits else value
    elif hint is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, origin or hint)
    if not fits:
        raise TypeError
    return value


def describe(hint: Any) -> str:
    """The type in words.

    >>> describe(int | Literal["auto"]), describe(tuple[int, ...])
    ("an integer or 'auto'", 'a list (each an integer)')
    """
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(option) for option in get_args(hint))
    if origin is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if origin in (tuple, list):
        return f"a list (each {describe(get_args(hint)[0])})"
    if (origin or hint) is dict:
        return "a table"
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))


def _to_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer past the largest float
        raise TypeError from None


def _convert_first(value: Any, hints: tuple[Any, ...]) -> Any:
    for hint in hints:
        try:
            return convert(value, hint)
        except TypeError:
            continue
    raise TypeError
