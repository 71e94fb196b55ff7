"""Choices: how tables are to be understood, where a person has a say."""

from __future__ import annotations

from dataclasses import dataclass

from gpnn.check import check_choice
from gpnn.data.tables.vocabulary import Vocabulary

NUMBERS = ("standard", "raw")


@dataclass(frozen=True)
class Choices:
    """How tables are to be understood; see :func:`gpnn.data.tables.tables`."""

    label: str = "label"
    categorical: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    numbers: str = "standard"
    undirected: bool = False
    seed: int = 0
    vocabulary: Vocabulary | None = None

    def __post_init__(self) -> None:
        check_choice("numbers", self.numbers, NUMBERS)


def split_list(text: str) -> tuple[str, ...]:
    """The names of a list that is separated by commas.

    >>> split_list("age, size")
    ('age', 'size')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())
