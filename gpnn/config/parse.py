"""Settings from TOML and dotted key=value, checked all at once; and the list of them all, with what each does."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from gpnn.check import convert, describe, unknown_setting
from gpnn.config.sections import SECTIONS, Config, ModelConfig
from gpnn.data.load import loader_options
from gpnn.data.tables import tables
from gpnn.nn import GPNN
from gpnn.storage.read import read_toml, shorten
from gpnn.text import docstring_entries

ENTRIES = {"data": "name", "partition": "method", "schedule": "name"}  # what names the entry that takes the options


def parse_config(settings: Mapping[str, Any]) -> tuple[Config, list[str]]:
    """The Config of nested settings, and a sentence for each one that is unknown or of the wrong type.

    What is not set is as `recipe` has it, a name of :data:`gpnn.recipes.RECIPES`. A key of [data], [partition] or
    [schedule] that is none of theirs is an option, for the builder to judge.

    >>> parse_config({"train": {"epoch": 10}})[1]
    ['`train.epoch` is not a setting. Did you mean `train.epochs`?']
    """
    problems: list[str] = []
    values: dict[str, Any] = {}
    hints = get_type_hints(Config)
    default = _default(settings, problems)
    for key, value in settings.items():
        if key not in hints:
            problems.append(unknown_setting(key))
        elif key in SECTIONS and isinstance(value, Mapping):
            values[key] = _parse_section(key, value, getattr(default, key), problems)
        elif key in SECTIONS:
            problems.append(f"`{key}` must be a section. Got {shorten(value)}.")
        else:
            _parse_value(key, value, hints[key], values, problems)
    return replace(default, **values), problems


def sound_config(settings: Mapping[str, Any]) -> Config:
    """The Config of settings that one wrote: :meth:`Config.to_toml` or another that was sound."""
    config, problems = parse_config(settings)
    assert not problems, problems
    return config


def _default(settings: Mapping[str, Any], problems: list[str]) -> Config:
    """The configuration of the recipe that the settings name, else of the default one."""
    name = settings.get("recipe")
    try:
        return Config.of(name) if isinstance(name, str) else Config()
    except ValueError as error:
        problems.append(str(error))
        return Config()


def read_settings(file: Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    """The nested settings of a TOML file with `section.key=value` laid over them.

    A value is read as TOML where it is TOML (`0.1`, `true`, `[256, 256]`), else as the text it is.

    Raises:
        ValueError: for a file that is not TOML and for a word without `=`.
    """
    settings = {} if file is None else _read_toml(file)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ValueError(f"A setting must look like section.key=value. Got {override!r}.")
        *path, last = key.strip().split(".")
        table = settings
        for name in path:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ValueError(f"`{key}` must lie in a section. `{name}` is a value.")
        table[last] = parse_literal(text.strip())
    return settings


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


def setting_names() -> list[str]:
    """Every setting by its dotted name, options aside."""
    names = _single()
    for section, kind in SECTIONS.items():
        names += [f"{section}.{each.name}" for each in fields(kind) if each.name != "options"]
    return names


def _single() -> list[str]:
    """The settings that stand outside the sections."""
    return [each.name for each in fields(Config) if each.name not in SECTIONS]


def _parse_section(section: str, settings: Mapping[str, Any], default: Any, problems: list[str]) -> Any:
    hints = get_type_hints(SECTIONS[section])
    takes_options = hints.pop("options", None) is not None
    values: dict[str, Any] = {}
    if takes_options and settings.get(ENTRIES[section]) not in (None, getattr(default, ENTRIES[section])):
        values["options"] = {}  # the default's are those of another entry
    for key, value in settings.items():
        if key in hints:
            _parse_value(f"{section}.{key}", value, hints[key], values, problems)
        elif takes_options and not isinstance(value, Mapping):
            values.setdefault("options", dict(default.options))[key] = value
        else:
            problems.append(unknown_setting(f"{section}.{key}"))
    try:
        return replace(default, **values)
    except ValueError as error:  # the recipe checks its ranges
        problems.append(str(error).replace("`", f"`{section}.", 1))
        return default


def _parse_value(key: str, value: Any, hint: Any, values: dict[str, Any], problems: list[str]) -> None:
    try:
        values[key.rpartition(".")[2]] = convert(value, hint)
    except TypeError:
        problems.append(f"`{key}` must be {describe(hint)}. Got {shorten(value)}.")


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return read_toml(file)
    except FileNotFoundError:
        raise ValueError(f"The configuration file must exist. {str(file)!r} does not.") from None


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
    """All settings with the values of `config`, or the defaults, and the options of a folder of tables.

    Options of other datasets, of partitioners and of schedules are not among them.

    >>> next(each for each in list_settings() if each.name == "train.epochs").default
    400
    """
    config = config or Config()
    found = list(_section("", config))
    for name in SECTIONS:
        found += _section(f"{name}.", getattr(config, name))
        if name == "data":
            found += _table_options([each.name for each in found])
    return found


def _table_options(known: Sequence[str]) -> Iterator[Setting]:
    about = read_entries(tables)
    for name, default in loader_options(tables).items():
        if f"data.{name}" not in known:
            yield Setting(f"data.{name}", describe(type(default)), default, f"of tables: {about[name]}")


def _section(prefix: str, section: Any) -> Iterator[Setting]:
    kinds, about = get_type_hints(type(section)), read_entries(type(section))
    if isinstance(section, ModelConfig):
        about = read_entries(GPNN) | about
    for each in fields(section):
        if each.name not in (*SECTIONS, "options"):
            value = getattr(section, each.name)
            yield Setting(prefix + each.name, describe(kinds[each.name]), value, about[each.name])


def read_entries(documented: Any) -> dict[str, str]:
    """What :func:`gpnn.text.docstring_entries` finds in the docstring of a class or function."""
    return docstring_entries(inspect.getdoc(documented) or "")
