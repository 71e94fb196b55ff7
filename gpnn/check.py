"""Checks of arguments, their types, settings' names and optional packages: errors name the constraint and the value."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from math import inf
from numbers import Real
from operator import index
from types import ModuleType
from typing import Any, Literal, Union, get_args, get_origin

BYTES = {"": 1e9, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def check_count(name: str, value: Any, *, at_least: int = 1) -> int:
    """`value` as an int. Raise ValueError unless it is an integer of at least `at_least`.

    >>> check_count("rounds", 5)
    5
    """
    count = _as_integer(value)
    if count is None or count < at_least:
        raise ValueError(f"`{name}` must be an integer of at least {at_least}. Got {value!r}.")
    return count


def check_node(name: str, value: Any, num_nodes: int) -> int:
    """`value` as an int. Raise ValueError unless it is the id of a node."""
    node = _as_integer(value)
    if node is None or not 0 <= node < num_nodes:
        raise ValueError(f"`{name}` must be a node, from 0 to {num_nodes - 1}. Got {value!r}.")
    return node


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(str, choices))}. Got {value!r}.")


def check_range(name: str, value: float, low: float, high: float = inf) -> None:
    """Raise ValueError unless `value` is from `low` to `high`; NaN is not.

    >>> check_range("mixing", 0.5, 0, 1)
    """
    if not low <= value <= high:
        allowed = f"at least {low}" if high == inf else f"from {low} to {high}"
        raise ValueError(f"`{name}` must be {allowed}. Got {value}.")


def check_sizes(**sizes: int) -> None:
    """Raise ValueError unless each size is positive; `in_channels` may be 0."""
    for name, value in sizes.items():
        check_range(name, value, 0 if name == "in_channels" else 1)


def check_probabilities(**probabilities: float) -> None:
    """Raise ValueError unless each probability is at least 0 and below 1."""
    for name, p in probabilities.items():
        if not 0 <= p < 1:
            raise ValueError(f"`{name}` must be at least 0 and below 1. Got {p}.")


def parse_memory(name: str, value: Any) -> float | None:
    """Bytes of "16GiB", "20GB", "500 MB" or a number of GB; None for "auto".

    Raises:
        ValueError: when it is no amount of memory.

    >>> parse_memory("memory", "16GiB"), parse_memory("memory", 2), parse_memory("memory", "auto")
    (17179869184.0, 2000000000.0, None)
    """
    if value == "auto":
        return None
    found = re.fullmatch(r"(\d+\.?\d*(?:e[+-]?\d+)?)\s*([kmgt]i?b|)", str(value).strip().lower())
    size = float(found[1]) * BYTES[found[2]] if found and not isinstance(value, bool) else 0.0
    if not 0 < size < inf:
        raise ValueError(f"`{name}` must be an amount such as 16GiB or 20GB, a number of GB, or auto. Got {value!r}.")
    return size


def _as_integer(value: Any) -> int | None:
    """The integer that a Python, numpy or torch integer holds; None for a bool or anything else."""
    try:
        return None if type(value).__name__ in ("bool", "bool_") else index(value)  # numpy's too
    except TypeError:
        return None


def check_seed(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is an integer that every generator accepts."""
    if (seed := _as_integer(value)) is None or not 0 <= seed < 2**63:
        raise ValueError(f"`{name}` must be an integer from 0 to 2**63 - 1. Got {value!r}.")


def check_options(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise ValueError for options that are not among the known ones of `owner`.

    >>> check_options("the schedule 'waves'", ["origins"], ["origins", "seed"])
    """
    unknown = [name for name in given if name not in known]
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, 1)
        hint = f" (the nearest is {near[0]})" if near else ""
        choices = f"one of {', '.join(known)}" if known else "left out: it accepts none"
        raise ValueError(f"An option of {owner} must be {choices}. Got {', '.join(unknown)}{hint}.")


def wrong_types(values: Mapping[str, Any], hints: Mapping[str, Any]) -> list[str]:
    """A sentence for each value that does not fit its type.

    >>> wrong_types({"epochs": "5", "rate": 1}, {"epochs": int, "rate": float})
    ["`epochs` must be an integer. Got '5'."]
    """
    problems = []
    for name, value in values.items():
        try:
            convert(value, hints[name])
        except TypeError:
            problems.append(f"`{name}` must be {describe(hints[name])}. Got {value!r}.")
    return problems


_TYPE_NAMES = {int: "an integer", float: "a number", str: "text", bool: "true or false", type(None): "nothing"}


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
        fits = isinstance(value, Real) and not isinstance(value, bool)
        value = _to_float(value) if fits else value
    elif hint is int:
        fits = (number := _as_integer(value)) is not None
        value = number if fits else value
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
    return _TYPE_NAMES.get(hint, getattr(hint, "__name__", str(hint)))


def _to_float(value: Real | float) -> float:
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


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra, wherever gpnn itself was installed from.

    It names the packages, which are on the package index, and not gpnn, which may have come from a clone or a wheel.

    >>> install_command("metis").startswith("pip install ")
    True
    """
    marker = re.compile(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""")
    try:
        wanted = [line.partition(";")[0].strip() for line in requires("gpnn") or () if marker.search(line)]
    except PackageNotFoundError:  # a clone that was put on the path
        wanted = []
    packages = " ".join(f'"{each}"' for each in wanted)
    return f"pip install {packages}" if packages else f'pip install ".[{extra}]" in a clone of gpnn'


def import_extra(module: str, extra: str, what: str) -> ModuleType:
    """The module of an optional package. Raise ValueError, with the way out, where it is not installed.

    Args:
        module: its name.
        extra: the extra that brings it.
        what: what needs it, for the error.
    """
    try:
        return import_module(module)
    except ImportError:
        raise ValueError(f"{what} needs {module}: {install_command(extra)}. Got none.") from None


# By section, "" those outside; a test compares them with the dataclasses of gpnn.config.
_NAMES = {
    "": "recipe budget blend seed device threads deterministic engine memory device_memory disk",
    "data": "name root undirected scale_features",
    "partition": "method k file",
    "schedule": "name rounds normalization self_loops",
    "model": (
        "name method labels hidden_channels cell message aggregate sharing input embedding_start embedding_scale "
        "encoder predict activation concat head readout input_dropout state_dropout update_dropout dropout "
        "drop_node norm standardize cell_options"
    ),
    "train": (
        "epochs optimizer learning_rate learning_rate_schedule warmup weight_decay decay_on clip class_weight "
        "label_smoothing passes batch labelled consistency consistency_warmup consistency_on consistency_threshold "
        "temperature self_training precision target_scale metric check_every patience tolerance checkpoint_every "
        "checkpoint_seconds"
    ),
}
SETTING_NAMES = tuple(f"{section}.{name}".lstrip(".") for section, names in _NAMES.items() for name in names.split())
SECTION_NAMES = tuple(filter(None, _NAMES))
TABLE_NAMES = tuple(  # options of a folder of tables; a test compares them with those of gpnn.data.tables.tables
    f"data.{name}"
    for name in [
        "nodes",
        "edges",
        "features",
        "labels",
        "id",
        "source",
        "target",
        "type",
        "weight",
        "edge_features",
        "label",
        "categorical",
        "ignore",
        "numbers",
        "task",
        "seed",
    ]
)
WITH_OPTIONS = ("data", "partition", "schedule")  # sections whose other keys are a loader's, a method's or a schedule's
SYNONYMS = {  # what others call our settings
    "lr": "train.learning_rate", "wd": "train.weight_decay", "num_epochs": "train.epochs", "max_epochs": "train.epochs",
    "early_stopping": "train.patience", "optim": "train.optimizer", "hidden": "model.hidden_channels",
    "hidden_dim": "model.hidden_channels", "hidden_size": "model.hidden_channels", "layers": "schedule.rounds",
    "num_layers": "schedule.rounds", "depth": "schedule.rounds", "num_parts": "partition.k", "parts": "partition.k",
    "dropnode": "model.drop_node", "gpu": "device", "cuda": "device", "random_state": "seed", "n_jobs": "threads",
}  # fmt: skip


def unknown_setting(key: str, also: Sequence[str] = ()) -> str:
    """The sentence for a setting that does not exist, with the nearest that does."""
    near = nearest_setting(key, also)
    hint = "`gpnn settings` lists those that there are." if near is None else f"Did you mean `{near}`?"
    shown = key if len(key) <= 80 else f"{key[:79]}…"
    return f"`{shown}` is not a setting. {hint}"


def nearest_setting(key: str, also: Sequence[str] = ()) -> str | None:
    """The setting that a wrong name means, if any.

    >>> nearest_setting("lr"), nearest_setting("epoch"), nearest_setting("teapot")
    ('train.learning_rate', 'train.epochs', None)
    """
    last = key.rpartition(".")[2]
    if last.lower() in SYNONYMS:
        return SYNONYMS[last.lower()]
    known = [*SETTING_NAMES, *SECTION_NAMES, *also]
    ends = {name.rpartition(".")[2]: name for name in known}
    near = difflib.get_close_matches(key, known, 1, 0.75)
    return next(iter(near or [ends[end] for end in difflib.get_close_matches(last, list(ends), 1, 0.7)]), None)


def unknown_settings(keys: Iterable[str], *, of_tables: bool = False) -> list[str]:
    """A sentence for each dotted name that cannot be a setting, those of one section together.

    Args:
        keys: the names.
        of_tables: whether the dataset is a folder of tables, whose options are known.

    >>> unknown_settings(["train.epoch", "schedule.intra", "seed"])
    ['`train.epoch` is not a setting. Did you mean `train.epochs`?']
    """
    sections: dict[str, list[str]] = {}
    for key in keys:
        section, dot, _ = key.partition(".")
        if of_tables and section == "data" and dot and key not in (*SETTING_NAMES, *TABLE_NAMES):
            sections.setdefault(section, []).append(key)
        elif key in (*SETTING_NAMES, *SECTION_NAMES) or (dot and section in WITH_OPTIONS):
            sections.setdefault(section, [])
        elif dot and section in SECTION_NAMES:
            inside = any(key.startswith(f"{name}.") for name in SETTING_NAMES)  # of a table
            sections.setdefault(section, []).extend([] if inside else [key])
        else:
            sections.setdefault(section, []).extend([] if section in SETTING_NAMES else [section])
    also = TABLE_NAMES if of_tables else ()
    return [unknown_setting(key, also) for keys in sections.values() for key in dict.fromkeys(keys)]
