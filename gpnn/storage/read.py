"""Reading files that others wrote: text, JSON and TOML, seals of JSON, limits on memory, short values for messages."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpnn.storage.atomic import DISK_FAILURES

SHARE = 0.5  # of the machine's memory
UNKNOWN_MEMORY = 8 << 30  # bytes, where the system does not report it
SMALL, EXPANSION = 1 << 28, 1000  # bytes that any file may take in memory; past that, so many times its own size


def read_text(path: Path) -> str:
    """The text of a file in UTF-8.

    Raises:
        ValueError: when it is not UTF-8, or no file but a pipe or a device, which may never end.
    """
    check_regular(path)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} must be text in UTF-8. Got {error.reason} at byte {error.start}.") from None


def check_regular(path: Path) -> None:
    """Raise ValueError for what is no file: a pipe, a socket, a device or a folder."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path.name} must be a file. Got a pipe, a device or a folder.")


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        ValueError: when it is not JSON or holds something else than an object.
    """
    return parse_json(read_text(path), path.name)


def parse_json(text: str, name: str) -> dict[str, Any]:
    """The JSON object that `text` writes; `name` is its name in the error when it is not one.

    >>> parse_json('{"epoch": 1}', "history.jsonl, line 1")
    {'epoch': 1}
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"{name} must be JSON. Got brackets nested too deep.") from None
    except ValueError as error:  # also an integer of more digits than Python converts
        raise ValueError(f"{name} must be JSON. Got a damaged text: {error}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object. Got {shorten(value)}.")
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """The settings that a TOML file holds.

    Raises:
        ValueError: when it is not TOML.
    """
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"{path} must be TOML. Got brackets nested too deep.") from None
    except ValueError as error:
        raise ValueError(f"{path} must be TOML. {error}.") from None


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings by dotted keys.

    >>> dict(flatten({"seed": 0, "train": {"epochs": 5}}))
    {'seed': 0, 'train.epochs': 5}
    """
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def wrong_field(values: Any, kinds: Mapping[str, Any]) -> Any:
    """What of a JSON object is not as `kinds` has its types by name: the first name, or a value that is no object.

    A name that is missing counts as None. None: all is sound.

    >>> wrong_field({"epoch": "1"}, {"epoch": int}), wrong_field({"epoch": 1}, {"epoch": int, "loss": float | None})
    ('epoch', None)
    """
    if not isinstance(values, Mapping):
        return values
    names = (name for name in (*kinds, *values) if name not in kinds or not isinstance(values.get(name), kinds[name]))
    return next(names, None)


def reason(error: BaseException) -> str:
    """The first line of an error, without its full stop, to end one of our own errors with.

    >>> reason(ValueError("no such column.")), reason(KeyError())
    ('no such column', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    return (lines[0][:200].rstrip(".") if lines else "") or type(error).__name__


class undamaged:
    """Raise what libraries raise for damaged bytes as one sentence: the file must be or hold what is expected.

    A sentence that begins with the file's name, and the errors for a file that is not there and for a disk that fails,
    stay as they are.

    >>> with undamaged("edges.npz", "hold arrays", (KeyError,)):
    ...     raise KeyError("shape")
    Traceback (most recent call last):
        ...
    ValueError: edges.npz must hold arrays. Got: 'shape'.
    """

    def __init__(self, file: str, expected: str, errors: tuple[type[BaseException], ...]) -> None:
        self.file, self.expected, self.errors = file, expected, errors

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        disk = isinstance(error, FileNotFoundError) or (isinstance(error, OSError) and error.errno in DISK_FAILURES)
        if isinstance(error, self.errors) and not disk:
            ours = str(error).startswith(self.file)
            raise ValueError(
                str(error) if ours else f"{self.file} must {self.expected}. Got: {reason(error)}."
            ) from None


def shorten(value: Any, length: int = 80) -> str:
    """A value for an error message: its `repr`, cut where it is longer than `length`.

    >>> shorten("ab"), shorten("a" * 100, 10)
    ("'ab'", "'aaaaa…'")
    """
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "an integer of thousands of digits"
    return text if len(text) <= length else f"{text[: length - 4]}…{text[-1]}"


def check_size(file: str, num_bytes: int) -> None:
    """Raise ValueError when the content of a file would need more than half of the machine's memory.

    Args:
        file: its name, for the error.
        num_bytes: bytes of its content in memory, as declared or counted.

    >>> check_size("edges.npz", 1000)
    """
    limit = memory_limit()
    if num_bytes > limit:
        sizes = f"the {limit / 2**30:.1f} GiB that a file may take here. Got {num_bytes / 2**30:,.1f} GiB"
        raise ValueError(f"{file} must unpack to at most {sizes}.")


def check_expansion(file: str, num_bytes: int, num_stored: int) -> None:
    """Raise ValueError when a small file would take much memory: a few bytes may name a huge shape.

    Args:
        file: its name, for the error.
        num_bytes: bytes of its content in memory.
        num_stored: bytes of the file that it is made of.

    >>> check_expansion("graph.pt", 8 * 10**9, 2000)
    Traceback (most recent call last):
        ...
    ValueError: graph.pt must unpack to at most 1,000 times its size. Got 8,000,000,000 bytes from 2,000.
    """
    check_size(file, num_bytes)
    check_ratio(file, num_bytes, num_stored)


def check_ratio(file: str, num_bytes: int, num_stored: int) -> None:
    """The same where the content does not lie in memory at once."""
    if num_bytes > max(SMALL, EXPANSION * num_stored):
        sizes = f"{num_bytes:,} bytes from {num_stored:,}"
        raise ValueError(f"{file} must unpack to at most {EXPANSION:,} times its size. Got {sizes}.")


@cache
def memory_limit() -> int:
    """The bytes that one file may use in memory."""
    try:
        return int(SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return UNKNOWN_MEMORY


SEAL = "sha256"


def seal(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with their digest as `sha256`.

    >>> sorted(seal({"epoch": 1}))
    ['epoch', 'sha256']
    """
    return {**values, SEAL: digest_json(values)}


def unseal(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The values without their digest.

    Raises:
        ValueError: when it is another's, naming the file.
    """
    kept = {name: value for name, value in values.items() if name != SEAL}
    if values.get(SEAL) != digest_json(kept):
        raise ValueError(f"{path} must be as it was written. Its digest is that of other values.")
    return kept


def digest_json(values: Mapping[str, Any]) -> str:
    """The sha256 of the values as JSON, whatever the order of their names."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
