"""Values of settings: from words to TOML's types, and back to TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any


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
