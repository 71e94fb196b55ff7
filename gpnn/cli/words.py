"""The words after a command: a dataset or folder, and settings as key=value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpnn.config import Config


def split_words(words: Sequence[str] | None) -> tuple[str | None, list[str]]:
    """The dataset's name or folder (None when there is none), and the settings.

    >>> split_words(["cora", "train.epochs=5"])
    ('cora', ['train.epochs=5'])

    Raises:
        ValueError: for a second word that is no setting.
    """
    named = [word for word in words or [] if "=" not in word or Path(word).exists()]
    if len(named) > 1:
        raise ValueError(f"There must be one dataset or folder; settings look like key=value. Got {', '.join(named)}.")
    return (named[0] if named else None), [word for word in words or [] if word not in named]


def read_config(
    words: Sequence[str] | None, *, file: Path | None = None, root: Path | None = None, also: Sequence[str] = ()
) -> Config:
    """The configuration of a command; what is said later counts: file, words, options.

    Args:
        words: the words after the command.
        file: TOML file of settings.
        root: the data folder.
        also: settings of the command's own options.
    """
    from gpnn.build import load_config
    from gpnn.data import DATASETS

    name, settings = split_words(words)
    if name is not None:
        is_folder = name not in DATASETS and Path(name).is_dir()
        settings.append(f"data.name={Path(name).resolve() if is_folder else name}")
    if root is not None:
        settings.append(f"data.root={root.resolve()}")
    return load_config(file, [*settings, *also])


def given_settings(words: Sequence[str] | None, file: Path | None) -> list[str]:
    """The dotted names of the settings that the user gave, in words or in a file."""
    from gpnn.config import read_settings

    settings = read_settings(file, split_words(words)[1])
    return [f"{section}.{key}" for section, keys in settings.items() if isinstance(keys, dict) for key in keys]
