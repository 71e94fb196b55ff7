"""Values of settings: from words and TOML to the types of the sections, and back to TOML."""

from __future__ import annotations

import json
import re
import tomllib
import types
from collections.abc import Mapping
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
    """The value as the type requires: whole numbers pass as floats, lists as tuples, nothing else changes.

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


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dump_toml(settings: Mapping[str, Any]) -> str:
    """Nested mappings of strings, numbers, truth values and lists as TOML; None is left out.

    >>> print(dump_toml({"seed": 0, "train": {"epochs": 5, "head": [1, 2]}}), end="")
    seed = 0
    <BLANKLINE>
    [train]
    epochs = 5
    head = [1, 2]
    """
    return "\n".join(_lines("", settings)).strip("\n") + "\n"


def _lines(name: str, table: Mapping[str, Any]) -> list[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    values = {key: value for key, value in table.items() if key not in tables and value is not None}
    lines = ["", f"[{name}]"] if name and (values or not tables) else []
    lines += [f"{_key(key)} = {_value(value)}" for key, value in values.items()]
    for key, value in tables.items():
        if value:
            lines += _lines(f"{name}.{_key(key)}" if name else _key(key), value)
    return lines


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    raise ValueError(f"A setting must be text, a number, true or false, or a list of these. Got {value!r}.")


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for the one control character that JSON leaves alone
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
