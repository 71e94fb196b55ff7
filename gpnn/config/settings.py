"""Every setting with its type, its default and a sentence, as the docstrings of its section have them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from gpnn.config.sections import SECTIONS, Config, ModelConfig
from gpnn.config.values import describe
from gpnn.nn import GPNN


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: dotted, as the command line takes it.
        kind: what its value must be.
        default: what a recipe has, as plain values hold it.
        about: what it does.
    """

    name: str
    kind: str
    default: Any
    about: str


def list_settings(config: Config | None = None) -> list[Setting]:
    """All settings with the values of `config`, or the defaults; options of loaders and methods are not among them.

    >>> next(each for each in list_settings() if each.name == "train.epochs").default
    400
    """
    config = config or Config()
    found = list(_section("", config))
    for name in SECTIONS:
        found += _section(f"{name}.", getattr(config, name))
    return found


def _section(prefix: str, section: Any) -> Iterator[Setting]:
    kinds, about = get_type_hints(type(section)), read_entries(type(section))
    if isinstance(section, ModelConfig):
        about = read_entries(GPNN) | about
    for each in fields(section):
        if each.name not in (*SECTIONS, "options"):
            value = getattr(section, each.name)
            yield Setting(prefix + each.name, describe(kinds[each.name]), value, about[each.name])


def read_entries(documented: type) -> dict[str, str]:
    """The sentences of a docstring's Args or Attributes, by name, roles of links left out."""
    text = inspect.getdoc(documented) or ""
    match = re.search(r"^(?:Args|Attributes):\n((?:    .*\n?|\n(?=    ))+)", text, re.MULTILINE)
    if match is None:
        return {}
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \w)", match[1].rstrip()):
        name, _, sentence = entry.strip().partition(": ")
        found[name] = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", " ".join(sentence.split()))
    return found
